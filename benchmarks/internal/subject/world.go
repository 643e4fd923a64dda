// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// object is a row: a number and what its reconcilers say of it. It is as small as a row can
// be, so that what is measured is the reconciler and not the row.
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

func idIndex[S any]() statedb.Index[*object[S], uint64] {
	return statedb.Index[*object[S], uint64]{
		Name:       "id",
		FromObject: func(o *object[S]) index.KeySet { return index.NewKeySet(index.Uint64(o.id)) },
		FromKey:    index.Uint64,
		FromString: index.Uint64String,
		Unique:     true,
	}
}

// runtime is what a hive provides for a contender to register itself with.
type runtime struct {
	cell.In

	Log      *slog.Logger
	DB       *statedb.DB
	JobGroup job.Group
	ModuleID cell.FullModuleID
}

// world is the System for rows whose status is of type S.
type world[S any] struct {
	hive    *hive.Hive
	log     *slog.Logger
	db      *statedb.DB
	table   statedb.RWTable[*object[S]]
	byID    statedb.Index[*object[S], uint64]
	targets []*Target
	workers int

	fresh     func() S
	kind      func(S) Kind
	updatedAt func(S) time.Time
}

// start puts the table into a hive, lets register add a contender to it, and starts it.
func (w *world[S]) start(register func(runtime, *world[S]) error) (System, error) {
	w.byID = idIndex[S]()
	w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	w.hive = hive.New(
		cell.SimpleHealthCell,
		statedb.Cell,
		job.Cell,
		cell.Module("bench", "Benchmark",
			cell.Provide(job.Registry.NewGroup),
			cell.Invoke(func(rt runtime) (err error) {
				w.db = rt.DB
				if w.table, err = statedb.NewTable(rt.DB, "rows", w.byID); err != nil {
					return err
				}
				return register(rt, w)
			}),
		),
	)
	if err := w.hive.Start(w.log, context.Background()); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world[S]) Insert(first, n uint64) error {
	txn := w.db.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		if _, _, err := w.table.Insert(txn, &object[S]{id: id, status: w.fresh()}); err != nil {
			txn.Abort()
			return fmt.Errorf("insert row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[S]) Remove(first, n uint64) error {
	txn := w.db.WriteTxn(w.table)
	for id := first; id < first+n; id++ {
		if _, _, err := w.table.Delete(txn, &object[S]{id: id}); err != nil {
			txn.Abort()
			return fmt.Errorf("delete row %d: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (w *world[S]) Await(ctx context.Context, id uint64, kind Kind) error {
	for {
		obj, _, watch, found := w.table.GetWatch(w.db.ReadTxn(), w.byID.Query(id))
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
		// The snapshot may be behind by now: Await looks again.
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
	return w.table.All(w.db.ReadTxn())
}

func (w *world[S]) Oldest() time.Time {
	// Every status write gives its row a new revision: the lowest revision is the row
	// that was left alone for the longest time.
	for obj := range w.table.LowerBound(w.db.ReadTxn(), statedb.ByRevision[*object[S]](0)) {
		return w.updatedAt(obj.status)
	}
	return time.Time{}
}

func (w *world[S]) Targets() []*Target { return w.targets }

func (w *world[S]) Workers() int { return w.workers }

func (w *world[S]) View() *View { return nil }

func (w *world[S]) Stop(ctx context.Context) error {
	if err := w.hive.Stop(w.log, ctx); err != nil {
		return errors.Join(errors.New("the hive did not stop"), err)
	}
	return nil
}
