// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
)

// The floor is the least that a reconciler on a statedb table can do, and so the practical limit of the
// store: read the changes, clone, call the target, compare-and-swap the statuses in one write transaction a
// round. It has no retries, metrics, health or limits. Its rows have the peer's status type.

// Floor starts the floor.
func Floor(o Options) (System, error) {
	d := peer
	d.registerPlain = registerFloor[reconciler.Status]
	d.registerSet = registerFloor[reconciler.StatusSet]
	return d.start(o)
}

func registerFloor[S any](rt Runtime, r registration[S, reconciler.Status], _ []reconciler.Option) error {
	f := &floor[S]{db: rt.DB, registration: r, results: make([]floorResult[S], 0, roundSize)}
	rt.JobGroup.Add(job.OneShot("floor", f.loop))
	return nil
}

type floor[S any] struct {
	registration[S, reconciler.Status]
	db      *statedb.DB
	results []floorResult[S] // of this round: updated, not committed yet
}

type floorResult[S any] struct {
	object   *object[S]
	revision statedb.Revision
}

func (f *floor[S]) loop(ctx context.Context, _ cell.Health) error {
	txn := f.db.WriteTxn(f.table)
	changes, err := f.table.Changes(txn)
	txn.Commit()
	if err != nil {
		return fmt.Errorf("watch the table: %w", err)
	}
	defer changes.Close()

	for {
		watch, err := f.round(ctx, changes)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watch:
		}
	}
}

// round reconciles up to roundSize changes; the channel closes when there is more to do.
func (f *floor[S]) round(ctx context.Context, changes statedb.ChangeIterator[*object[S]]) (<-chan struct{}, error) {
	txn := f.db.ReadTxn()
	seq, watch := changes.Next(txn)
	for change, revision := range seq {
		if change.Deleted {
			if err := f.ops.Delete(ctx, txn, revision, change.Object); err != nil {
				return nil, err
			}
			continue
		}
		if !f.getStatus(change.Object).IsPendingOrRefreshing() {
			continue
		}
		obj := change.Object.clone()
		if err := f.ops.Update(ctx, txn, revision, obj); err != nil {
			return nil, err
		}
		f.results = append(f.results, floorResult[S]{obj, revision})
		if len(f.results) == roundSize {
			break
		}
	}
	return watch, f.commit()
}

func (f *floor[S]) commit() error {
	if len(f.results) == 0 {
		return nil
	}
	txn := f.db.WriteTxn(f.table)
	for _, result := range f.results {
		obj := f.setStatus(result.object, reconciler.StatusDone())
		_, _, err := f.table.CompareAndSwap(txn, result.revision, obj)
		if err != nil && !errors.Is(err, statedb.ErrRevisionNotEqual) && !errors.Is(err, statedb.ErrObjectNotFound) {
			txn.Abort()
			return fmt.Errorf("commit row %d: %w", obj.id, err)
		}
	}
	txn.Commit()
	clear(f.results)
	f.results = f.results[:0]
	return nil
}
