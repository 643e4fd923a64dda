// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// The rows of the tables.
type (
	Link    = Row[config.Link]
	Address = Row[config.Address]
	Route   = Row[config.Route]
	Sysctl  = Row[config.Sysctl]
)

// The names of the tables.
const (
	LinksTable        = "links"
	AddressesTable    = "addresses"
	RoutesTable       = "routes"
	RoutesWantedTable = "routes-wanted"
	SysctlsTable      = "sysctls"
)

// Tables are the tables of the desired objects. The part of the program that fills them must register an
// initializer with each but Routes, as [NewStore] does: without one a table counts as initialised, and what
// it does not have is removed.
type Tables struct {
	Links     statedb.RWTable[*Link]
	Addresses statedb.RWTable[*Address]
	Sysctls   statedb.RWTable[*Sysctl]

	// RoutesWanted has all that is wanted, by WantedKey. Routes belongs to the derivation that
	// [NewBestRoutes] returns.
	RoutesWanted, Routes statedb.RWTable[*Route]

	Loops Loops

	db *statedb.DB
	// tookOver: Ready has succeeded.
	tookOver atomic.Bool
}

// NewTables creates the tables and registers them with the database.
func NewTables(db *statedb.DB) (*Tables, error) {
	t := &Tables{db: db}
	var errs [5]error
	t.Links, errs[0] = newTable(db, LinksTable, Key[config.Link])
	t.Addresses, errs[1] = newTable(db, AddressesTable, Key[config.Address])
	t.RoutesWanted, errs[2] = newTable(db, RoutesWantedTable, WantedKey)
	t.Routes, errs[3] = newTable(db, RoutesTable, Key[config.Route])
	t.Sysctls, errs[4] = newTable(db, SysctlsTable, Key[config.Sysctl])
	return t, errors.Join(errs[:]...)
}

// filled returns the tables that sources write, for a transaction that writes to all of them.
func (t *Tables) filled() []statedb.TableMeta {
	return []statedb.TableMeta{t.Links, t.Addresses, t.RoutesWanted, t.Sysctls}
}

// Key returns the key of a row in each table but RoutesWanted.
func Key[S Spec](_ Source, spec S) string { return spec.Key() }

// newTable creates a table with the key as its primary index and the needed link as its secondary index.
func newTable[S Spec](db *statedb.DB, name string, key func(Source, S) string) (statedb.RWTable[*Row[S]], error) {
	table, err := statedb.NewTable(db, name, keyIndex(key), needsIndex[S]())
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", name, err)
	}
	return table, nil
}

func keyIndex[S Spec](key func(Source, S) string) statedb.Index[*Row[S], string] {
	return statedb.Index[*Row[S], string]{
		Name:       "key",
		FromObject: func(r *Row[S]) index.KeySet { return index.NewKeySet(index.String(key(r.Source, r.Spec))) },
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
func ByKey[S Spec](key string) statedb.Query[*Row[S]] { return keyIndex(Key[S]).Query(key) }

// ByNeeds is the query for the rows that need a link.
func ByNeeds[S Spec](link string) statedb.Query[*Row[S]] { return needsIndex[S]().Query(link) }

// Needed reports whether any row that a source wrote needs a link of this name.
func (t *Tables) Needed(txn statedb.ReadTxn, link string) bool {
	return needed(txn, t.Links, link) || needed(txn, t.Addresses, link) ||
		needed(txn, t.RoutesWanted, link) || needed(txn, t.Sysctls, link)
}

func needed[S Spec](txn statedb.ReadTxn, table statedb.Table[*Row[S]], link string) bool {
	_, _, found := table.Get(txn, ByNeeds[S](link))
	return found
}
