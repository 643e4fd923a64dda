// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"fmt"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/status"
)

// maxRead bounds the rows that a call of Take reads, because it takes the loop's time.
const maxRead = 1024

// Row is a row and its revision.
type Row[Obj any] struct {
	Object   Obj
	Revision statedb.Revision
}

// Refresher finds the rows of a table to refresh. It belongs to the goroutine of the loop, except for
// [Refresher.WalkAll].
type Refresher[Obj any] struct {
	rows *rows.Rows[Obj]
	// interval is the one of the last call of Take. due is when rows may be due.
	interval time.Duration
	due      time.Time
	// called is the walk that was requested last, repair the walk over the rows that a resync found missing or
	// different.
	called, repair Walk[Obj]
	// lap is the present lap, if the rows carry no status, and lapAt is when the next one may begin. Otherwise aged is the
	// revision up to which the age of rows has been checked.
	lap   Walk[Obj]
	lapAt time.Time
	aged  statedb.Revision
	// turn is whose turn it was last: see collect.
	turn int

	// Health is where the time of the next refresh is reported: set before the first call of Take. reported is when
	// that was done last.
	Health   cell.Health
	reported time.Time
}

// New returns a Refresher.
func New[Obj any](of *rows.Rows[Obj]) *Refresher[Obj] { return &Refresher[Obj]{rows: of} }

// WalkAll returns a walk over all rows that are not written after the call; if the rows carry the
// status, only over those that are Done. It is safe from any goroutine.
func (r *Refresher[Obj]) WalkAll() *Walk[Obj] {
	if r.rows.Writable == nil {
		w := walkUpTo[Obj](r.rows.Revision())
		return &w
	}
	at := time.Now()
	return &Walk[Obj]{covers: func(row Row[Obj]) bool {
		s := r.rows.Asked(row.Object)
		// A status written after the request is recent enough. A status with a time in the future is from
		// a clock that was set back afterwards.
		return s.Kind == status.KindDone && (!s.UpdatedAt.After(at) || s.UpdatedAt.After(time.Now()))
	}}
}

// Walk refreshes the rows of a walk. It replaces an earlier walk.
func (r *Refresher[Obj]) Walk(w *Walk[Obj]) { r.called, r.due = *w, time.Time{} }

// WalkRepairs repairs the rows of a walk. It replaces an earlier walk of repairs, and goes on where that is: so rows that
// differ at each resync do not keep those behind them from being repaired.
func (r *Refresher[Obj]) WalkRepairs(w *Walk[Obj]) {
	last := r.repair
	r.repair, r.due = *w, time.Now()
	r.repair.last, r.repair.begun, r.repair.again = last.last, last.begun, last.begun
}

// Repairing reports whether the walk of repairs has not ended.
func (r *Refresher[Obj]) Repairing() bool { return r.repair.on() }

// Next returns when the next row may be due; false if none is before another call.
func (r *Refresher[Obj]) Next() (at time.Time, ok bool) {
	return r.due, r.interval > 0 || r.called.on() || r.repair.on()
}

// Take returns rows that are due, at most size, and the cause of their operations. interval is the age at which a row is
// refreshed; 0 for never.
func (r *Refresher[Obj]) Take(interval time.Duration, size int) (batch []Row[Obj], why core.Cause) {
	now := time.Now()
	if interval != r.interval {
		r.configure(now, interval)
	}
	if at, ok := r.Next(); size == 0 || !ok || now.Before(at) {
		return nil, why
	}
	batch, why, next := r.collect(now, size)
	if r.due = now.Add(next); len(batch) == 0 {
		r.report(now, next)
	}
	return batch, why
}

func (r *Refresher[Obj]) configure(now time.Time, interval time.Duration) {
	switch at := now.Add(interval); {
	case interval == 0:
		r.lap = Walk[Obj]{}
		r.Health.OK("Refreshing is off")
	case r.interval == 0 || at.Before(r.lapAt):
		r.lapAt = at
	}
	r.interval, r.due = interval, time.Time{}
}

// collect returns the next rows to refresh, at most size, and the cause. If there are none, it also returns the time
// until there may be some. Repairs, a requested walk and the rows that are due take turns, so that none has to wait for
// the end of another.
func (r *Refresher[Obj]) collect(now time.Time, size int) (batch []Row[Obj], why core.Cause, next time.Duration) {
	for range 3 {
		r.turn = (r.turn + 1) % 3
		why = core.CauseRefresh
		switch {
		case r.turn == 0:
			batch, why = r.repair.next(r.rows, size), core.CauseRepair
		case r.turn == 1:
			batch = r.called.next(r.rows, size)
		case r.interval == 0:
		case r.rows.Writable == nil:
			batch, next = r.nextOfLap(now, size)
		default:
			batch, next = r.collectAged(now, size)
		}
		if len(batch) > 0 {
			return batch, why, 0
		}
	}
	if r.called.on() || r.repair.on() {
		next = 0
	}
	return nil, why, next
}

// nextOfLap returns up to size rows of the lap, and begins one that is due. If there are none, it returns the time until
// the next lap. A lap that takes longer than the interval is followed by the next at once.
func (r *Refresher[Obj]) nextOfLap(now time.Time, size int) (batch []Row[Obj], next time.Duration) {
	if !r.lap.on() && !now.Before(r.lapAt) {
		r.lap = walkUpTo[Obj](r.rows.Revision())
		if r.lapAt = r.lapAt.Add(r.interval); !r.lapAt.After(now) {
			// It begins late by more than an interval. One lap makes up for all that were due.
			r.lapAt = now.Add(r.interval)
		}
	}
	if batch = r.lap.next(r.rows, size); r.lap.on() {
		return batch, 0
	}
	return batch, max(0, r.lapAt.Sub(now))
}

// collectAged returns up to size rows whose status is old enough. It stops at the first row that is too
// young, and returns the time until that is old enough.
func (r *Refresher[Obj]) collectAged(now time.Time, size int) (batch []Row[Obj], next time.Duration) {
	read := 0
	for object, revision := range r.rows.Table.LowerBound(r.rows.DB.ReadTxn(), statedb.ByRevision[Obj](r.aged+1)) {
		s := r.rows.Asked(object)
		// A status with a time in the future is from a clock that was set back afterwards.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < r.interval {
			return batch, r.interval - age
		}
		if len(batch) == size || read == maxRead {
			return batch, 0
		}
		read++
		r.aged = revision
		if s.Kind == status.KindDone {
			batch = append(batch, Row[Obj]{object, revision})
		}
	}
	return batch, r.interval
}

// report reports as health when the next refresh is: at most once a second, if it is sooner than that. The report
// stays until the next one, so it has the time of day.
func (r *Refresher[Obj]) report(now time.Time, next time.Duration) {
	if r.interval > 0 && (next >= time.Second || now.Sub(r.reported) >= time.Second) {
		r.Health.OK(fmt.Sprintf("Next refresh in %s, at %s", next.Round(time.Millisecond), text.Stamp(now.Add(next))))
		r.reported = now
	}
}
