// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows

import (
	"reflect"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// What statedb v0.9 changes is called in this file only.

// KeyOf returns the primary key of an object.
func KeyOf[Obj any](indexer statedb.Indexer[Obj], obj Obj) index.Key { return indexer.ObjectToKey(obj) }

// QueryOf returns the query for the row that has the primary key of an object.
func QueryOf[Obj any](indexer statedb.Indexer[Obj], obj Obj) statedb.Query[Obj] {
	return indexer.QueryFromObject(obj)
}

// KeySet returns the set of some keys.
func KeySet(keys ...index.Key) index.KeySet { return index.NewKeySet(keys...) }

// queryFromKey returns how an index makes a query of a key; nil if it cannot. The interface of
// statedb's indexes does not have that method.
func queryFromKey[Obj any](indexer statedb.Indexer[Obj]) func(index.Key) statedb.Query[Obj] {
	i, ok := indexer.(interface {
		QueryFromKey(index.Key) statedb.Query[Obj]
	})
	if !ok {
		return nil
	}
	return i.QueryFromKey
}

// keyReader returns how an index makes a key of a text, as the commands of statedb do; nil
// if it cannot. That is a field of statedb's indexes, which their interface does not have.
func keyReader(indexer any) func(text string) (index.Key, error) {
	v := reflect.ValueOf(indexer)
	if v.Kind() != reflect.Struct {
		return nil
	}
	field := v.FieldByName("FromString")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	from, _ := field.Interface().(func(string) (index.Key, error))
	return from
}
