// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/object"
)

// TableConfig has the limits of a [TableRecorder]. The zero value has the defaults. Negative values
// are errors.
type TableConfig struct {
	// MaxRows is the maximum number of rows in the table. Zero means 1000. If there are more, the
	// rows that were not repeated for the longest time are deleted.
	MaxRows int
	// MaxPending is the maximum number of different events that wait to be written. Zero means
	// 1024. Further events are dropped and counted.
	MaxPending int
}

const (
	defaultMaxRows    = 1000
	defaultMaxPending = 1024

	// gather is how long events wait to be written together: short enough for a person, and at most
	// fifty transactions a second.
	gather = 20 * time.Millisecond
)

func (c TableConfig) withDefaults() (TableConfig, error) {
	var errs []error
	if c.MaxRows < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.MaxRows is %d, must not be negative", c.MaxRows))
	}
	if c.MaxPending < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.MaxPending is %d, must not be negative", c.MaxPending))
	}
	if c.MaxRows == 0 {
		c.MaxRows = defaultMaxRows
	}
	if c.MaxPending == 0 {
		c.MaxPending = defaultMaxPending
	}
	return c, errors.Join(errs...)
}

// TableRecorder records events in a table: see [Row] for which events share a row. The goroutine of
// [TableRecorder.Run] writes them some milliseconds later. Event only adds to a list in memory and
// never waits for the table. So the caller may hold a write transaction of any table, including
// that of events.
type TableRecorder struct {
	db     *statedb.DB
	table  statedb.RWTable[*Row]
	log    *slog.Logger
	config TableConfig

	// wake has an element while something is pending.
	wake chan struct{}

	// mu is held only for short accesses, never while the table is written.
	mu sync.Mutex
	// pending are the rows that are not in the table yet, and order their keys in the order in
	// which they came.
	pending map[RowKey]*Row
	order   []RowKey
	// dropped counts the events that exceeded MaxPending.
	dropped uint64
}

var _ Recorder = (*TableRecorder)(nil)

// NewTableRecorder returns a recorder to a table made by [NewTable]. Nothing is written until
// [TableRecorder.Run] is called. It logs the number of dropped events; log may be nil. The error
// names every mistake.
func NewTableRecorder(db *statedb.DB, table statedb.RWTable[*Row], log *slog.Logger, c TableConfig) (*TableRecorder, error) {
	c, err := c.withDefaults()
	if db == nil {
		err = errors.Join(errors.New("the DB is nil"), err)
	}
	if table == nil {
		err = errors.Join(errors.New("the table is nil"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("new table recorder: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &TableRecorder{
		db: db, table: table, log: log, config: c,
		wake: make(chan struct{}, 1), pending: make(map[RowKey]*Row),
	}, nil
}

// Event implements [Recorder].
func (r *TableRecorder) Event(obj object.Object, e Event) { r.add(newRow(obj, e, time.Now())) }

// WithAnnotations implements [Recorder].
func (r *TableRecorder) WithAnnotations(keysAndValues ...string) Recorder {
	return &annotatedRecorder{r, with(nil, keysAndValues)}
}

// annotatedRecorder is a TableRecorder with annotations.
type annotatedRecorder struct {
	to          *TableRecorder
	annotations map[string]string
}

func (r *annotatedRecorder) Event(obj object.Object, e Event) {
	r.to.Event(obj, over(r.annotations, e))
}

func (r *annotatedRecorder) WithAnnotations(keysAndValues ...string) Recorder {
	return &annotatedRecorder{r.to, with(r.annotations, keysAndValues)}
}

// Dropped returns the number of events that were dropped because MaxPending was exceeded. It is
// safe for concurrent use.
func (r *TableRecorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// add adds a row to pending and wakes Run.
func (r *TableRecorder) add(row *Row) {
	if !r.note(row) {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// note adds a row to pending, or to the pending row of its key. It reports false if the row was
// dropped.
func (r *TableRecorder) note(row *Row) bool {
	key := row.Key()
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier, ok := r.pending[key]; ok {
		r.pending[key] = repeated(earlier, row)
		return true
	}
	if len(r.pending) >= r.config.MaxPending {
		r.dropped++
		return false
	}
	r.pending[key] = row
	r.order = append(r.order, key)
	return true
}

// take removes and returns the pending rows in order.
func (r *TableRecorder) take() []*Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]*Row, len(r.order))
	for i, key := range r.order {
		rows[i] = r.pending[key]
	}
	r.pending, r.order = make(map[RowKey]*Row), nil
	return rows
}

// Run writes events into the table until ctx ends, and then writes those that were recorded before
// that. It returns nil. Call it once. Without it, and after it, events stay pending, and different
// ones beyond MaxPending are dropped.
func (r *TableRecorder) Run(ctx context.Context) error {
	told := uint64(0)
	for {
		select {
		case <-ctx.Done():
		case <-r.wake:
			select {
			case <-ctx.Done():
			case <-time.After(gather):
			}
		}
		// Read before take: events that are recorded during the write then get another one.
		ended := ctx.Err() != nil
		r.write(r.take())
		told = r.complain(told)
		if ended {
			return nil
		}
	}
}

// complain logs the number of events that were dropped since the last call, and returns the total.
func (r *TableRecorder) complain(told uint64) uint64 {
	dropped := r.Dropped()
	if dropped > told {
		r.log.Warn("events dropped, more came than could be written", "dropped", dropped-told, "in_all", dropped)
	}
	return dropped
}

// write inserts rows into the table, added to existing rows of their keys, and enforces MaxRows.
func (r *TableRecorder) write(rows []*Row) {
	if len(rows) == 0 {
		return
	}
	wtxn := r.db.WriteTxn(r.table)
	defer wtxn.Abort()
	for _, row := range rows {
		if earlier, _, ok := r.table.Get(wtxn, ByKey(row.Key())); ok {
			row = repeated(earlier, row)
		}
		if _, _, err := r.table.Insert(wtxn, row); err != nil {
			r.log.Error("event not recorded", "object", row.Key().Object.String(), "reason", string(row.Reason), "error", err)
		}
	}
	r.drop(wtxn)
	wtxn.Commit()
}

// drop deletes the rows beyond MaxRows. A repeated row is written again, so the lowest revisions
// are the rows that were not repeated for the longest time.
func (r *TableRecorder) drop(wtxn statedb.WriteTxn) {
	tooMany := r.table.NumObjects(wtxn) - r.config.MaxRows
	if tooMany <= 0 {
		return
	}
	var oldest []*Row
	for row := range r.table.LowerBound(wtxn, statedb.ByRevision[*Row](0)) {
		if len(oldest) == tooMany {
			break
		}
		oldest = append(oldest, row)
	}
	for _, row := range oldest {
		if _, _, err := r.table.Delete(wtxn, row); err != nil {
			r.log.Error("event not dropped", "object", row.Key().Object.String(), "reason", string(row.Reason), "error", err)
		}
	}
}
