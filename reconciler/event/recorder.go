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

// TableConfig says how much a [TableRecorder] keeps. The zero value has the defaults; what is
// negative is an error.
type TableConfig struct {
	// MaxRows is how many rows the table has at most. Zero means 1000. When there are
	// more, those that were not repeated for the longest time are dropped.
	MaxRows int
	// MaxPending is how many different events may wait to be written. Zero means 1024.
	// What does not fit is dropped, and counted.
	MaxPending int
}

const (
	defaultMaxRows    = 1000
	defaultMaxPending = 1024

	// gather is how long events wait for others to be written with: a person does not
	// notice, and a storm is fifty transactions a second.
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

// TableRecorder records events in a table: see [Row] for what is folded. It writes from the
// goroutine of [TableRecorder.Run], some milliseconds later. Event only notes what is to be
// written: it never waits for the table, and whoever calls it may hold a write transaction of
// any table, the one of events included.
type TableRecorder struct {
	db     *statedb.DB
	table  statedb.RWTable[*Row]
	log    *slog.Logger
	config TableConfig

	// wake has an element when something is pending.
	wake chan struct{}

	// mu is held for a few look-ups, never while the table is written.
	mu sync.Mutex
	// pending are the rows as far as they are not in the table yet, and order their keys
	// as they came.
	pending map[RowKey]*Row
	order   []RowKey
	// dropped counts what did not fit.
	dropped uint64
}

var _ Recorder = (*TableRecorder)(nil)

// NewTableRecorder returns a recorder to a table that was made by [NewTable]. Nothing is
// written until [TableRecorder.Run] is called. It tells the log what it drops; a nil one
// means nobody. The error names everything that is wrong.
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

// Dropped returns how many events were dropped since more were waiting to be written than may.
// Safe from any goroutine.
func (r *TableRecorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// add notes what is to be written.
func (r *TableRecorder) add(row *Row) {
	if !r.note(row) {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

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

// take returns what is to be written, in the order in which it came.
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

// Run writes events into the table until ctx ends, and then once more what was recorded
// before that. It returns nil. It is to be called once; without it, and after it, events wait
// until they are dropped.
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
		// Before the take: what is recorded during a write has a write of its own.
		ended := ctx.Err() != nil
		r.write(r.take())
		told = r.complain(told)
		if ended {
			return nil
		}
	}
}

// complain says how many events were dropped since the last time, and returns how many there
// were in all.
func (r *TableRecorder) complain(told uint64) uint64 {
	dropped := r.Dropped()
	if dropped > told {
		r.log.Warn("events dropped, more came than could be written", "dropped", dropped-told, "in_all", dropped)
	}
	return dropped
}

// write puts rows into the table, on top of what they repeat, and drops what is too much.
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

// drop deletes the rows that are too many: rows are written when they are repeated, so the
// lowest revisions are what happened longest ago.
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
