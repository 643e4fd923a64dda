// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// Store writes the state file into the tables.
type Store struct {
	db     *statedb.DB
	tables *Tables

	initialized []func(statedb.WriteTxn)
}

// initializer is the name of the initializer that holds back removals: the first reading of the file.
const initializer = "state-file"

// NewStore returns a Store on the tables of a database. The tables are initialised by the first
// [Store.Apply].
func NewStore(db *statedb.DB, tables *Tables) *Store {
	txn := db.WriteTxn(tables.filled()...)
	defer txn.Commit()
	return &Store{db: db, tables: tables, initialized: []func(statedb.WriteTxn){
		tables.Links.RegisterInitializer(txn, initializer),
		tables.Addresses.RegisterInitializer(txn, initializer),
		tables.RoutesWanted.RegisterInitializer(txn, initializer),
		tables.Sysctls.RegisterInitializer(txn, initializer),
	}}
}

// Apply makes the rows equal to the state, in one transaction: it inserts new and changed objects, deletes
// objects that are not in the state, and leaves equal rows alone. The first call makes the tables initialised.
// The state must have been checked.
func (s *Store) Apply(state config.State) {
	txn := s.db.WriteTxn(s.tables.filled()...)
	defer txn.Abort()
	applyFile(txn, s.tables.Links, Key, state.Links)
	applyFile(txn, s.tables.Addresses, Key, state.Addresses)
	applyFile(txn, s.tables.RoutesWanted, WantedKey, state.Routes)
	applyFile(txn, s.tables.Sysctls, Key, state.Sysctls)
	for _, done := range s.initialized {
		done(txn)
	}
	txn.Commit()
}

func applyFile[S Spec](
	txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], keyOf func(Source, S) string, specs []config.Located[S],
) {
	wanted := make(map[string]struct{}, len(specs))
	for _, located := range specs {
		key := keyOf(File, located.Spec)
		wanted[key] = struct{}{}
		if old, _, found := table.Get(txn, ByKey[S](key)); !found || old.Spec != located.Spec {
			mustInsert(txn, table, &Row[S]{Spec: located.Spec, Source: File})
		}
	}
	for row := range table.All(txn) {
		if _, ok := wanted[keyOf(row.Source, row.Spec)]; !ok {
			mustDelete(txn, table, row)
		}
	}
}

// mustInsert inserts into a table of the transaction. A table without the transaction's lock is the only
// possible error.
func mustInsert[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], row *Row[S]) {
	if _, _, err := table.Insert(txn, row); err != nil {
		panic(err)
	}
}

// mustDelete deletes like mustInsert.
func mustDelete[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], row *Row[S]) {
	if _, _, err := table.Delete(txn, row); err != nil {
		panic(err)
	}
}
