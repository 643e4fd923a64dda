// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Backend is a row that carries the status of its reconciler.
type Backend struct {
	Name, Address string
	Status        reconciler.Status
}

func (*Backend) TableHeader() []string { return []string{"Name", "Address", "Status"} }
func (b *Backend) TableRow() []string  { return []string{b.Name, b.Address, b.Status.String()} }

func (b *Backend) Clone() *Backend                             { c := *b; return &c }
func (b *Backend) SetStatus(status reconciler.Status) *Backend { b.Status = status; return b }
func newBackends(db *statedb.DB) (statedb.RWTable[*Backend], error) {
	return statedb.NewTable(db, "backends", statedb.Index[*Backend, string]{
		Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(b *Backend) index.KeySet { return index.NewKeySet(index.String(b.Name)) },
	})
}

// The rows carry a status, so the source needs Same, which ignores it, and Merge, which sets it to
// Pending. Without a status in the rows it needs neither.
func Example_rowsWithAStatus() {
	db := statedb.New()
	table, err := newBackends(db)
	if err != nil {
		log.Fatal(err)
	}
	store, err := source.New(source.Config[*Backend]{
		Name: "store", DB: db, Table: table,
		Same:  func(row, b *Backend) bool { return row.Address == b.Address },
		Merge: func(_, b *Backend) *Backend { return b.Clone().SetStatus(reconciler.StatusPending()) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	for at, list := range [][]*Backend{
		{{Name: "a", Address: "10.0.0.1"}, {Name: "b", Address: "10.0.0.2"}},
		{{Name: "a", Address: "10.0.0.1"}, {Name: "b", Address: "10.0.0.3"}},
		{{Name: "b", Address: "10.0.0.3"}},
	} {
		// New rows are written as they are given: they have to ask for something, too.
		for _, b := range list {
			b.Status = reconciler.StatusPending()
		}
		changed, err := store.Replace(context.Background(), list, uint64(at+1))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("list", at+1, "changed", changed)
		wtxn := db.WriteTxn(table)
		for b := range table.All(wtxn) {
			fmt.Println(b.Name, b.Address, b.Status.Kind)
			// A reconciler applies the row.
			if _, _, err := table.Insert(wtxn, b.Clone().SetStatus(reconciler.StatusDone())); err != nil {
				log.Fatal(err)
			}
		}
		wtxn.Commit()
	}

	// Output:
	// list 1 changed 2
	// a 10.0.0.1 Pending
	// b 10.0.0.2 Pending
	// list 2 changed 1
	// a 10.0.0.1 Done
	// b 10.0.0.3 Pending
	// list 3 changed 1
	// b 10.0.0.3 Done
}
