// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"context"
	"fmt"
	"iter"
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
func (b *Backend) GetStatus() reconciler.Status                { return b.Status }
func (b *Backend) SetStatus(status reconciler.Status) *Backend { b.Status = status; return b }
func newBackends(db *statedb.DB) (statedb.RWTable[*Backend], error) {
	return statedb.NewTable(db, "backends", statedb.Index[*Backend, string]{
		Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(b *Backend) index.KeySet { return index.NewKeySet(index.String(b.Name)) },
	})
}

// printer is a target that prints what is done.
type printer struct{}

func (printer) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, b *Backend) error {
	fmt.Println("update", b.Name, b.Address)
	return nil
}

func (printer) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, b *Backend) error {
	fmt.Println("delete", b.Name)
	return nil
}

func (printer) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Backend, statedb.Revision]) error {
	return nil
}

// The rows carry a status, so the source needs Same, which ignores it, and Merge, which sets it to
// Pending. Without a status in the rows it needs neither.
func Example_rowsWithAStatus() {
	db := statedb.New()
	table, err := newBackends(db)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Backend]{
		DB: db, Table: table, Operations: printer{},
		Clone: (*Backend).Clone, GetStatus: (*Backend).GetStatus, SetStatus: (*Backend).SetStatus,
	})
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

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()
	for at, list := range [][]*Backend{
		{{Name: "a", Address: "10.0.0.1"}, {Name: "b", Address: "10.0.0.2"}},
		{{Name: "a", Address: "10.0.0.1"}, {Name: "b", Address: "10.0.0.3"}},
		{{Name: "b", Address: "10.0.0.3"}},
	} {
		// New rows are written as they are given: they have to ask for something, too.
		for _, b := range list {
			b.Status = reconciler.StatusPending()
		}
		changed, err := store.Replace(ctx, list, uint64(at+1))
		if err != nil {
			log.Fatal(err)
		}
		if _, err := loop.WaitAll(ctx, reconciler.Applied); err != nil {
			log.Fatal(err)
		}
		fmt.Println("list", at+1, "changed", changed)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// update a 10.0.0.1
	// update b 10.0.0.2
	// list 1 changed 2
	// update b 10.0.0.3
	// list 2 changed 1
	// delete a
	// list 3 changed 1
}
