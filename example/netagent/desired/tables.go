// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// The rows of the four tables.
type (
	Link    = Row[config.Link]
	Address = Row[config.Address]
	Route   = Row[config.Route]
	Sysctl  = Row[config.Sysctl]
)

// The names of the four tables.
const (
	LinksTable     = "links"
	AddressesTable = "addresses"
	RoutesTable    = "routes"
	SysctlsTable   = "sysctls"
)

// initializer is the name of the initializer that holds back prune: the first reading of the file.
const initializer = "state-file"

// Tables are the four tables. They are initialised by the first [Store.Apply].
type Tables struct {
	Links     statedb.RWTable[*Link]
	Addresses statedb.RWTable[*Address]
	Routes    statedb.RWTable[*Route]
	Sysctls   statedb.RWTable[*Sysctl]

	Loops Loops

	initialized []func(statedb.WriteTxn)
}

// NewTables creates the four tables and registers them with the database.
func NewTables(db *statedb.DB) (*Tables, error) {
	var t Tables
	var err error
	if t.Links, err = newTable(db, LinksTable, linkHeader, linkColumns); err != nil {
		return nil, err
	}
	if t.Addresses, err = newTable(db, AddressesTable, addressHeader, addressColumns); err != nil {
		return nil, err
	}
	if t.Routes, err = newTable(db, RoutesTable, routeHeader, routeColumns); err != nil {
		return nil, err
	}
	if t.Sysctls, err = newTable(db, SysctlsTable, sysctlHeader, sysctlColumns); err != nil {
		return nil, err
	}
	txn := db.WriteTxn(t.metas()...)
	t.initialized = []func(statedb.WriteTxn){
		t.Links.RegisterInitializer(txn, initializer),
		t.Addresses.RegisterInitializer(txn, initializer),
		t.Routes.RegisterInitializer(txn, initializer),
		t.Sysctls.RegisterInitializer(txn, initializer),
	}
	txn.Commit()
	return &t, nil
}

// metas returns the tables for a transaction that writes to all four.
func (t *Tables) metas() []statedb.TableMeta {
	return []statedb.TableMeta{t.Links, t.Addresses, t.Routes, t.Sysctls}
}

// newTable creates a table with the key as its primary index and the needed link as its secondary index.
func newTable[S Spec](db *statedb.DB, name string, header []string, columns func(S) []string) (statedb.RWTable[*Row[S]], error) {
	table, err := statedb.NewTableAny(db, name,
		func() []string { return append(header, "Source") },
		func(r *Row[S]) []string { return append(columns(r.Spec), string(r.Source)) },
		keyIndex[S](), needsIndex[S]())
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", name, err)
	}
	return table, nil
}

func keyIndex[S Spec]() statedb.Index[*Row[S], string] {
	return statedb.Index[*Row[S], string]{
		Name:       "key",
		FromObject: func(r *Row[S]) index.KeySet { return index.NewKeySet(index.String(r.Spec.Key())) },
		FromKey:    index.String,
		FromString: index.FromString,
		Unique:     true,
	}
}

func needsIndex[S Spec]() statedb.Index[*Row[S], string] {
	return statedb.Index[*Row[S], string]{
		Name: "needs",
		FromObject: func(r *Row[S]) index.KeySet {
			if link := r.Spec.Needs(); link != "" {
				return index.NewKeySet(index.String(link))
			}
			return index.KeySet{}
		},
		FromKey:    index.String,
		FromString: index.FromString,
	}
}

// ByKey is the query for the row with a key.
func ByKey[S Spec](key string) statedb.Query[*Row[S]] { return keyIndex[S]().Query(key) }

// ByNeeds is the query for the rows that need a link.
func ByNeeds[S Spec](link string) statedb.Query[*Row[S]] { return needsIndex[S]().Query(link) }

// Needed reports whether any row of the four tables needs a link of this name.
func (t *Tables) Needed(txn statedb.ReadTxn, link string) bool {
	return needed(txn, t.Links, link) || needed(txn, t.Addresses, link) ||
		needed(txn, t.Routes, link) || needed(txn, t.Sysctls, link)
}

func needed[S Spec](txn statedb.ReadTxn, table statedb.Table[*Row[S]], link string) bool {
	_, _, found := table.Get(txn, ByNeeds[S](link))
	return found
}
