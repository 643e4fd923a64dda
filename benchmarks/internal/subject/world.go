// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// object is a row: a number and the statuses of its reconcilers. It is as small as a row can be, so that a
// benchmark measures the reconciler and not the row.
type object[S any] struct {
	id     uint64
	status S
}

func (o *object[S]) clone() *object[S] {
	c := *o
	return &c
}

func (o *object[S]) TableHeader() []string { return []string{"id", "status"} }

func (o *object[S]) TableRow() []string {
	return []string{strconv.FormatUint(o.id, 10), fmt.Sprint(o.status)}
}

// world is the System for rows with a status of type S.
type world[S any] struct {
	*Host
	table   statedb.RWTable[*object[S]]
	byID    statedb.Index[*object[S], uint64]
	targets []*Target

	// writeWork is Options.WriteWork; nil for none.
	writeWork func(id uint64) error

	fresh func() S
	kind  func(S) Kind
}

// objects returns a world of rows with a status of type S. fresh returns the status of a row to reconcile.
func objects[S any](fresh func() S, kind func(S) Kind) *world[S] {
	return &world[S]{
		byID: statedb.Index[*object[S], uint64]{
			Name:       "id",
			FromObject: func(o *object[S]) index.KeySet { return index.NewKeySet(index.Uint64(o.id)) },
			FromKey:    index.Uint64,
			FromString: index.Uint64String,
			Unique:     true,
		},
		fresh: fresh,
		kind:  kind,
	}
}

// start puts the table into a hive, lets register add a contender to it, and starts it.
func (w *world[S]) start(register func(Runtime, *world[S]) error) (System, error) {
	var err error
	w.Host, err = StartHost(func(rt Runtime) (err error) {
		if w.table, err = statedb.NewTable(rt.DB, "rows", w.byID); err != nil {
			return err
		}
		return register(rt, w)
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world[S]) Insert(first, n uint64) error {
	txn := w.DB.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		err := w.work(id)
		if err == nil {
			_, _, err = w.table.Insert(txn, &object[S]{id: id, status: w.fresh()})
		}
		if err != nil {
			txn.Abort()
			return fmt.Errorf("insert row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[S]) Remove(first, n uint64) error {
	txn := w.DB.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		err := w.work(id)
		if err == nil {
			_, _, err = w.table.Delete(txn, &object[S]{id: id})
		}
		if err != nil {
			txn.Abort()
			return fmt.Errorf("delete row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[S]) work(id uint64) error {
	if w.writeWork == nil {
		return nil
	}
	return w.writeWork(id)
}

func (w *world[S]) Await(ctx context.Context, id uint64, kind Kind) error {
	for {
		obj, _, watch, found := w.table.GetWatch(w.DB.ReadTxn(), w.byID.Query(id))
		if found && w.kind(obj.status) == kind {
			return nil
		}
		select {
		case <-watch:
		case <-ctx.Done():
			state := "not in the table"
			if found {
				state = w.kind(obj.status).String()
			}
			return fmt.Errorf("row %d is %s, waited for %s: %w", id, state, kind, context.Cause(ctx))
		}
	}
}

func (w *world[S]) AwaitAll(ctx context.Context, kind Kind) (waited uint64, err error) {
	for obj := range w.all() {
		if w.kind(obj.status) == kind {
			continue
		}
		waited++
		// The snapshot may be outdated by now: Await reads a new one.
		if err := w.Await(ctx, obj.id, kind); err != nil {
			return waited, err
		}
	}
	return waited, nil
}

func (w *world[S]) Count() map[Kind]uint64 {
	counts := map[Kind]uint64{}
	for obj := range w.all() {
		counts[w.kind(obj.status)]++
	}
	return counts
}

func (w *world[S]) all() iter.Seq2[*object[S], statedb.Revision] {
	return w.table.All(w.DB.ReadTxn())
}

func (w *world[S]) Targets() []*Target { return w.targets }
