// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package keys makes keys and queries from objects. It is the only package of the library that calls
// the functions that statedb v0.9 changes: the indexer's ObjectToKey and QueryFromObject, and
// index.NewKeySet. So the move to v0.9 changes one file. A test of this package finds other callers.
package keys

import (
	"reflect"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// Of returns the primary key of an object.
func Of[Obj any](indexer statedb.Indexer[Obj], obj Obj) index.Key { return indexer.ObjectToKey(obj) }

// Query returns the query for the row with the primary key of an object.
func Query[Obj any](indexer statedb.Indexer[Obj], obj Obj) statedb.Query[Obj] {
	return indexer.QueryFromObject(obj)
}

// Set returns a set of keys.
func Set(keys ...index.Key) index.KeySet { return index.NewKeySet(keys...) }

// QueryOfKey returns the function of an index that makes a query of a key; nil if it has none. The
// interface of statedb's indexes does not have this method.
func QueryOfKey[Obj any](indexer statedb.Indexer[Obj]) func(index.Key) statedb.Query[Obj] {
	i, ok := indexer.(interface {
		QueryFromKey(index.Key) statedb.Query[Obj]
	})
	if !ok {
		return nil
	}
	return i.QueryFromKey
}

// Reader returns the function of an index that converts a text to a key, as statedb's commands do;
// nil if it has none. It is a field of statedb's indexes, which is not in their interface.
func Reader(indexer any) func(text string) (index.Key, error) {
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
