// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// Store writes the tables: the state file and the HTTP API both use it. Its methods are safe for concurrent
// use.
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

// Changes counts the changes that an [Store.Apply] made to the rows of the file.
type Changes struct {
	Added, Changed, Removed int

	// Taken lists the objects, as "table key", that moved from the API to the file, or were removed because
	// the file has the other end of a veth.
	Taken []string
}

// String returns the counts in words.
func (c Changes) String() string {
	return fmt.Sprintf("%d added, %d changed, %d removed", c.Added, c.Changed, c.Removed)
}

// Apply makes the rows of the file equal to the state, in one transaction: it inserts new and changed
// objects, deletes objects that are not in the state, and leaves equal rows alone. The
// first call makes the tables initialised. The state must have been checked.
func (s *Store) Apply(state config.State) Changes {
	txn := s.db.WriteTxn(s.tables.filled()...)
	defer txn.Abort()
	var c Changes
	s.breakPairs(txn, state.Links, &c)
	applyFile(txn, s.tables.Links, Key, state.Links, &c)
	applyFile(txn, s.tables.Addresses, Key, state.Addresses, &c)
	applyFile(txn, s.tables.RoutesWanted, WantedKey, state.Routes, &c)
	applyFile(txn, s.tables.Sysctls, Key, state.Sysctls, &c)
	for _, done := range s.initialized {
		done(txn)
	}
	txn.Commit()
	return c
}

// breakPairs deletes the veths of the API of which the file has only one end: two rows that each want
// another peer would replace each other for ever.
func (s *Store) breakPairs(txn statedb.WriteTxn, links []config.Located[config.Link], c *Changes) {
	wanted := make(map[string]struct{}, len(links))
	for _, l := range links {
		wanted[l.Spec.Name] = struct{}{}
	}
	for name := range wanted {
		row, _, ok := s.tables.Links.Get(txn, ByKey[config.Link](name))
		if !ok || row.Source != API || row.Spec.Peer == "" {
			continue
		}
		if _, both := wanted[row.Spec.Peer]; both {
			continue
		}
		if peer, _, ok := s.tables.Links.Get(txn, ByKey[config.Link](row.Spec.Peer)); ok {
			mustDelete(txn, s.tables.Links, peer)
			c.Taken = append(c.Taken, LinksTable+" "+peer.Spec.Name)
		}
	}
}

func applyFile[S Spec](
	txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], keyOf func(Source, S) string, specs []config.Located[S], c *Changes,
) {
	wanted := make(map[string]struct{}, len(specs))
	for _, located := range specs {
		key := keyOf(File, located.Spec)
		wanted[key] = struct{}{}
		old, _, found := table.Get(txn, ByKey[S](key))
		if found && old.Source != File {
			c.Taken = append(c.Taken, table.Name()+" "+key)
		}
		switch {
		case !found:
			c.Added++
		case old.Spec != located.Spec:
			c.Changed++
		case old.Source == File:
			continue
		}
		mustInsert(txn, table, &Row[S]{Spec: located.Spec, Source: File})
	}
	for row := range table.All(txn) {
		if _, ok := wanted[keyOf(row.Source, row.Spec)]; !ok && row.Source == File {
			c.Removed++
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
