// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

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

func (o *object[S]) number() uint64 { return o.id }

func (o *object[S]) TableHeader() []string { return []string{"id", "status"} }

func (o *object[S]) TableRow() []string {
	return []string{strconv.FormatUint(o.id, 10), fmt.Sprint(o.status)}
}

// row is the constraint for the rows of a world: pointers with a number.
type row interface {
	statedb.TableWritable
	number() uint64
}

// idIndex returns the primary index of rows; keys returns the key for a row number.
func idIndex[R row](keys func(R) index.KeySet) statedb.Index[R, uint64] {
	return statedb.Index[R, uint64]{
		Name:       "id",
		FromObject: keys,
		FromKey:    index.Uint64,
		FromString: index.Uint64String,
		Unique:     true,
	}
}

// world is the System for rows of type R.
type world[R row] struct {
	*host
	table   statedb.RWTable[R]
	byID    statedb.Index[R, uint64]
	targets []*Target
	workers int

	// writeWork is Options.WriteWork; nil for none.
	writeWork func(id uint64) error

	// pending makes a row to reconcile; named makes one with only a number, as a key.
	pending   func(id uint64) R
	named     func(id uint64) R
	kind      func(R) Kind
	updatedAt func(R) time.Time
}

// objects returns a world of objects, whose status is of type S.
func objects[S any](fresh func() S, kind func(S) Kind, updatedAt func(S) time.Time) *world[*object[S]] {
	return &world[*object[S]]{
		byID:      idIndex(func(o *object[S]) index.KeySet { return index.NewKeySet(index.Uint64(o.id)) }),
		pending:   func(id uint64) *object[S] { return &object[S]{id: id, status: fresh()} },
		named:     func(id uint64) *object[S] { return &object[S]{id: id} },
		kind:      func(o *object[S]) Kind { return kind(o.status) },
		updatedAt: func(o *object[S]) time.Time { return updatedAt(o.status) },
	}
}

// start puts the table into a hive, lets register add a contender to it, and starts it.
func (w *world[R]) start(register func(runtime, *world[R]) error) (System, error) {
	var err error
	w.host, err = startHost(func(rt runtime) (err error) {
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

func (w *world[R]) Insert(first, n uint64) error {
	txn := w.db.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		err := w.work(id)
		if err == nil {
			_, _, err = w.table.Insert(txn, w.pending(id))
		}
		if err != nil {
			txn.Abort()
			return fmt.Errorf("insert row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[R]) Remove(first, n uint64) error {
	txn := w.db.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		err := w.work(id)
		if err == nil {
			_, _, err = w.table.Delete(txn, w.named(id))
		}
		if err != nil {
			txn.Abort()
			return fmt.Errorf("delete row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[R]) work(id uint64) error {
	if w.writeWork == nil {
		return nil
	}
	return w.writeWork(id)
}

func (w *world[R]) Await(ctx context.Context, id uint64, kind Kind) error {
	for {
		obj, _, watch, found := w.table.GetWatch(w.db.ReadTxn(), w.byID.Query(id))
		if found && w.kind(obj) == kind {
			return nil
		}
		select {
		case <-watch:
		case <-ctx.Done():
			state := "not in the table"
			if found {
				state = w.kind(obj).String()
			}
			return fmt.Errorf("row %d is %s, waited for %s: %w", id, state, kind, context.Cause(ctx))
		}
	}
}

func (w *world[R]) AwaitAll(ctx context.Context, kind Kind) (waited uint64, err error) {
	for obj := range w.all() {
		if w.kind(obj) == kind {
			continue
		}
		waited++
		// The snapshot may be outdated by now: Await reads a new one.
		if err := w.Await(ctx, obj.number(), kind); err != nil {
			return waited, err
		}
	}
	return waited, nil
}

func (w *world[R]) Count() map[Kind]uint64 {
	counts := map[Kind]uint64{}
	for obj := range w.all() {
		counts[w.kind(obj)]++
	}
	return counts
}

func (w *world[R]) all() iter.Seq2[R, statedb.Revision] {
	return w.table.All(w.db.ReadTxn())
}

func (w *world[R]) Oldest() time.Time {
	// Every status write gives its row a new revision: the row with the lowest revision was not written for
	// the longest time.
	for obj := range w.table.LowerBound(w.db.ReadTxn(), statedb.ByRevision[R](0)) {
		return w.updatedAt(obj)
	}
	return time.Time{}
}

func (w *world[R]) Targets() []*Target { return w.targets }

func (w *world[R]) Workers() int { return w.workers }

func (w *world[R]) View() *View { return nil }
