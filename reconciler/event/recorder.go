// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/object"
)

const (
	maxRows = 1000
	// maxPending bounds the rows that wait to be written.
	maxPending = 1024
	// gather is how long events wait to be written together: short enough for a person, and at most
	// fifty transactions a second.
	gather = 20 * time.Millisecond
)

// TableRecorder records events in a table: see [Row] for which events share a row. The goroutine of
// [TableRecorder.Run] writes them some milliseconds later. Event only adds to a list in memory and
// never waits for the table. So the caller may hold a write transaction of any table, including
// that of events.
type TableRecorder struct {
	db    *statedb.DB
	table statedb.RWTable[*Row]
	log   *slog.Logger

	// wake has an element while something is pending.
	wake chan struct{}

	// mu is held only for short accesses, never while the table is written.
	mu sync.Mutex
	// pending are the rows that are not in the table yet, order their keys as they came.
	pending map[string]*Row
	order   []string
	// dropped counts the events that exceeded maxPending since the last write.
	dropped int
}

// NewTableRecorder returns a recorder to a table made by [NewTable]. Nothing is written until
// [TableRecorder.Run] is called. log gets the number of dropped events; it must not be nil.
func NewTableRecorder(db *statedb.DB, table statedb.RWTable[*Row], log *slog.Logger) *TableRecorder {
	return &TableRecorder{db: db, table: table, log: log, wake: make(chan struct{}, 1), pending: map[string]*Row{}}
}

// Event implements [Recorder].
func (r *TableRecorder) Event(obj object.Object, e Event) {
	r.note(newRow(obj, e, time.Now()))
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// note adds a row to pending, or to the pending row of its key.
func (r *TableRecorder) note(row *Row) {
	key := row.key()
	r.mu.Lock()
	defer r.mu.Unlock()
	earlier, ok := r.pending[key]
	switch {
	case ok:
		r.pending[key] = repeated(earlier, row)
	case len(r.pending) >= maxPending:
		r.dropped++
	default:
		r.pending[key] = row
		r.order = append(r.order, key)
	}
}

// repeated returns the sum of two rows of one key.
func repeated(earlier, later *Row) *Row {
	both := *later
	both.Count += earlier.Count
	both.First = earlier.First
	return &both
}

// take removes and returns the pending rows in order, and the number of events that were dropped.
func (r *TableRecorder) take() (rows []*Row, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.order {
		rows = append(rows, r.pending[key])
	}
	dropped = r.dropped
	r.pending, r.order, r.dropped = map[string]*Row{}, nil, 0
	return rows, dropped
}

// Run writes events into the table until ctx ends, and then writes those that were recorded before
// that. It returns nil. Call it once. Without it, and after it, events stay pending, and different
// ones beyond 1024 are dropped.
func (r *TableRecorder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.wake:
			select {
			case <-ctx.Done():
			case <-time.After(gather):
			}
		}
		r.write()
	}
	r.write()
	return nil
}

// write inserts the pending rows into the table, added to existing rows of their keys. Then it deletes the
// rows beyond maxRows: a repeated row is written again, so the lowest revisions are the rows that were not
// repeated for the longest time.
func (r *TableRecorder) write() {
	rows, dropped := r.take()
	if dropped > 0 {
		r.log.Warn("events dropped, more came than could be written", "dropped", dropped)
	}
	if len(rows) == 0 {
		return
	}
	wtxn := r.db.WriteTxn(r.table)
	defer wtxn.Abort()
	for _, row := range rows {
		if earlier, _, ok := r.table.Get(wtxn, keyIndex.Query(row.key())); ok {
			row = repeated(earlier, row)
		}
		// Only an ended transaction is an error.
		_, _, _ = r.table.Insert(wtxn, row)
	}
	var oldest []*Row
	for row := range r.table.LowerBound(wtxn, statedb.ByRevision[*Row](0)) {
		if r.table.NumObjects(wtxn)-len(oldest) <= maxRows {
			break
		}
		oldest = append(oldest, row)
	}
	for _, row := range oldest {
		_, _, _ = r.table.Delete(wtxn, row)
	}
	wtxn.Commit()
}

// Cell provides the table of events, as a [statedb.Table] of [Row], and its [Recorder]. Events that are
// recorded while the hive stops are written if the jobs that record them depend on the recorder: they are
// then stopped before it.
var Cell = cell.Module("events", "Table of what happened to objects",
	cell.ProvidePrivate(NewTable, job.Registry.NewGroup),
	cell.Provide(statedb.RWTable[*Row].ToTable, registerRecorder),
	// Make the table even if no other cell uses the recorder.
	cell.Invoke(func(Recorder) {}),
)

func registerRecorder(db *statedb.DB, table statedb.RWTable[*Row], log *slog.Logger, jobs job.Group) Recorder {
	r := NewTableRecorder(db, table, log)
	jobs.Add(job.OneShot("record", func(ctx context.Context, _ cell.Health) error { return r.Run(ctx) }))
	return r
}
