// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package follow

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
)

// Table reads the changes of a table, and keeps those that failed. It belongs to one goroutine at a
// time.
type Table[Obj any] struct {
	Kept[Obj]

	db      *statedb.DB
	table   statedb.Table[Obj]
	indexer statedb.Indexer[Obj]
	// changes is nil after Close.
	changes statedb.ChangeIterator[Obj]
	// started is the zero of the clock.
	started time.Time
	// health gets the report of kept changes; nil for no report. told: the report was made when
	// version was toldVersion.
	health      cell.Health
	told        bool
	toldVersion uint64
}

// New begins to follow a table. The rows that are in the table are the first changes, and no later
// change is lost. It locks the table for a moment. The caller must call [Table.Close] at the end.
func New[Obj any](db *statedb.DB, table statedb.Table[Obj]) (*Table[Obj], error) {
	wtxn := db.WriteTxn(table)
	defer wtxn.Commit()
	changes, err := table.Changes(wtxn)
	if err != nil {
		return nil, err
	}
	return &Table[Obj]{
		Kept: NewKept[Obj](), db: db, table: table, indexer: table.PrimaryIndexer(), changes: changes, started: time.Now(),
	}, nil
}

// Close stops following. Until then, the table keeps deleted rows that were not read in memory. Close
// may be called more than once.
func (t *Table[Obj]) Close() {
	if !t.Closed() {
		t.changes.Close()
		t.changes = nil
	}
}

// Closed reports whether Close was called.
func (t *Table[Obj]) Closed() bool { return t.changes == nil }

// Now returns the time since New. Changes of the wall clock do not affect it.
func (t *Table[Obj]) Now() time.Duration { return time.Since(t.started) }

// Key returns the primary key of a row.
func (t *Table[Obj]) Key(row Obj) string {
	key, _ := t.indexer.ObjectToKey(row)
	return string(key)
}

// Next returns the changes since the last one that was read. Changes that the caller does not read
// are returned by the next call, where several changes of a row may be one. The channel is closed
// when there may be more changes; it is closed already if there are any now.
func (t *Table[Obj]) Next() (changes iter.Seq2[statedb.Change[Obj], statedb.Revision], watch <-chan struct{}) {
	return t.changes.Next(t.db.ReadTxn())
}

// Wait blocks until the channel is closed, a kept change is due, or ctx ends.
func (t *Table[Obj]) Wait(ctx context.Context, watch <-chan struct{}) {
	var due <-chan time.Time
	if at, ok := t.NextDue(); ok {
		timer := time.NewTimer(at - t.Now())
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-watch:
	case <-due:
	}
}

// SetHealth sets the health that Report reports to; nil for none.
func (t *Table[Obj]) SetHealth(health cell.Health) { t.health, t.told = health, false }

// Report reports the kept changes to health if their errors have changed since the last report.
func (t *Table[Obj]) Report() {
	if t.health == nil || t.told && t.errors.Version() == t.toldVersion {
		return
	}
	t.told, t.toldVersion = true, t.errors.Version()
	if n := t.Len(); n > 0 {
		t.health.Degraded(fmt.Sprintf("%d error(s)", n), t.Errors())
		return
	}
	t.health.OK(fmt.Sprintf("OK, following table %q", t.table.Name()))
}

// End reports to health that the table is not followed any more, because of err.
func (t *Table[Obj]) End(err error) {
	if t.health != nil {
		t.health.Degraded(fmt.Sprintf("following table %q has ended", t.table.Name()), err)
	}
}
