// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"fmt"
	"sync"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
)

// reader is the least that a reconciler of rows without a status can do: it reads the changes and calls
// the target. A row is done when the reader has passed its revision. An error ends it.
type reader struct {
	db    *statedb.DB
	table statedb.RWTable[bareRow]
	byID  statedb.Index[bareRow, uint64]
	ops   operations[none]

	mu    sync.Mutex
	read  statedb.Revision
	moved chan struct{} // closes when read grows
}

// FloorBeside starts the floor of rows without a status.
func FloorBeside(o Options) (System, error) {
	return startBesideWorld(o, func(rt Runtime, w *world[none], target *Target, name string) (teller, error) {
		r := &reader{db: rt.DB, table: w.table, byID: w.byID, ops: operations[none]{target}, moved: make(chan struct{})}
		rt.JobGroup.Add(job.OneShot("reader"+name, r.loop))
		return r, nil
	})
}

func (r *reader) loop(ctx context.Context, _ cell.Health) error {
	txn := r.db.WriteTxn(r.table)
	changes, err := r.table.Changes(txn)
	txn.Commit()
	if err != nil {
		return fmt.Errorf("watch the table: %w", err)
	}
	defer changes.Close()

	for {
		watch, err := r.round(ctx, changes)
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

// round hands all changes to the target; the channel closes when there are more.
func (r *reader) round(ctx context.Context, changes statedb.ChangeIterator[bareRow]) (<-chan struct{}, error) {
	txn := r.db.ReadTxn()
	seq, watch := changes.Next(txn)
	for change, revision := range seq {
		call := r.ops.Update
		if change.Deleted {
			call = r.ops.Delete
		}
		if err := call(ctx, txn, revision, change.Object); err != nil {
			return nil, err
		}
	}
	r.pass(r.table.Revision(txn))
	return watch, nil
}

func (r *reader) pass(revision statedb.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = revision
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *reader) tell(txn statedb.ReadTxn, row bareRow) (kind Kind, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, revision, found := r.table.Get(txn, r.byID.Query(row.id))
	if found && revision <= r.read {
		kind = Done
	}
	return kind, found
}

func (r *reader) watch(txn statedb.ReadTxn, row bareRow) (kind Kind, found bool, changed []<-chan struct{}) {
	r.mu.Lock()
	read, moved := r.read, r.moved
	r.mu.Unlock()
	_, revision, watch, found := r.table.GetWatch(txn, r.byID.Query(row.id))
	if found && revision <= read {
		kind = Done
	}
	return kind, found, []<-chan struct{}{watch, moved}
}
