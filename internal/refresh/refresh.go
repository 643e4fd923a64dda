// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"fmt"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/status"
)

const (
	// shortestPause is the shortest pause between two batches: timers are no finer. A shorter pause is
	// added to the next one.
	shortestPause = time.Millisecond
	// glance bounds the rows that a step reads, because it takes the loop's time.
	glance = 1024
)

// Settings are the settings of a Refresher.
type Settings struct {
	// Interval is the age of a status at which its row is refreshed; 0 for never.
	Interval time.Duration
	// Limiter bounds the rate of refreshed rows; nil for no bound.
	Limiter *rate.Limiter
	// RoundSize bounds the rows of a batch if operations come in batches.
	RoundSize int
}

// Config is the configuration of a Refresher. All fields are required.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// Batches reports whether the loop's operations come in batches.
	Batches bool
	// Give has the loop apply rows again. If it marks them in the table, it returns the revisions of the
	// table before and after that, otherwise zeros.
	Give func(batch []Row[Obj]) (after, upTo statedb.Revision)
	// Repair has the loop repair rows.
	Repair func(batch []Row[Obj])
}

// Row is a row and its revision.
type Row[Obj any] struct {
	Object   Obj
	Revision statedb.Revision
}

// Refresher finds the rows of a table to refresh. It belongs to the goroutine of the loop, except for
// [Refresher.WalkAll].
type Refresher[Obj any] struct {
	cfg Config[Obj]
	place[Obj]
	set   Settings
	sizes sizes
	batch given
	// due is when rows may be due. free is the end of the pause after the last batch, owed a pause that
	// was too short.
	due, free time.Time
	owed      time.Duration
	// reserved are the permits of the limiter for the next rows.
	reserved []*rate.Reservation

	// Health is where the time of the next refresh is reported: set before the first step. reported is when
	// that was done last.
	Health   cell.Health
	reported time.Time
}

// place is the place of a Refresher in the table.
type place[Obj any] struct {
	// called is the walk that was requested last, lap the lap if the rows carry no status. Otherwise aged is
	// the revision up to which the age of rows has been checked.
	called Walk[Obj]
	lap    lap[Obj]
	aged   statedb.Revision
	// repair is the walk over the rows that a resync found missing or different.
	repair Walk[Obj]
	// turn is whose turn it was last: see collect.
	turn int
}

// given is a batch that was given to the loop.
type given struct {
	// open: the loop has not dealt with it.
	open  bool
	size  int
	began time.Time
	// The marks are at revisions above after and up to upTo.
	after, upTo statedb.Revision
	calls       calls
}

// Pass is the state of a loop at the end of a pass.
type Pass struct {
	// Seen is the revision up to which the main cursor has handed over all changes. The catch-up
	// cursor has read those above CaughtUpFrom and up to CaughtUpTo; both are 0 if there is none.
	Seen, CaughtUpFrom, CaughtUpTo statedb.Revision
	// Refreshing is the number of refreshes that are ready or in flight, except stuck ones.
	Refreshing int
}

// New returns a Refresher.
func New[Obj any](cfg Config[Obj]) *Refresher[Obj] {
	return &Refresher[Obj]{cfg: cfg, sizes: newSizes(cfg.Batches)}
}

// WalkAll returns a walk over all rows that are not written after the call; if the rows carry the
// status, only over those that are Done. It is safe from any goroutine.
func (r *Refresher[Obj]) WalkAll() *Walk[Obj] {
	if r.cfg.Rows.Writable == nil {
		w := walkUpTo[Obj](r.cfg.Rows.Revision())
		return &w
	}
	at := time.Now()
	return &Walk[Obj]{wanted: func(row Row[Obj]) bool {
		s := r.cfg.Rows.Asked(row.Object)
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

// Next returns the time of the next step; false if there is none before another call.
func (r *Refresher[Obj]) Next() (at time.Time, ok bool) {
	if at = r.due; r.free.After(at) {
		at = r.free
	}
	return at, !r.batch.open && (r.set.Interval > 0 || r.called.on() || r.repair.on())
}

// Step gives the loop the rows that are due, if the loop has dealt with the last ones.
func (r *Refresher[Obj]) Step(set Settings) {
	if set != r.set {
		r.configure(set)
	}
	at, ok := r.Next()
	now := time.Now()
	if !ok || now.Before(at) {
		return
	}
	size := r.sizes.next(set)
	if n := len(r.reserved); n > 0 {
		size = min(size, n)
	}
	before := r.place
	batch, next, give := r.collect(now, size)
	if len(batch) == 0 {
		r.due = now.Add(next)
		r.report(now, next)
		return
	}
	if r.due = r.permitted(now, len(batch)); r.due.After(now) {
		// The rows are collected again when they are permitted.
		r.place = before
		return
	}
	r.reserved = r.reserved[:max(0, len(r.reserved)-len(batch))]
	r.batch = given{open: true, size: len(batch), began: now}
	r.batch.after, r.batch.upTo = give(batch)
}

func (r *Refresher[Obj]) configure(set Settings) {
	if set.Limiter != r.set.Limiter {
		for _, permit := range slices.Backward(r.reserved) {
			permit.Cancel()
		}
		r.reserved = nil
	}
	if r.set.Interval > 0 && set.Interval == 0 {
		r.lap = lap[Obj]{}
		r.Health.OK("Refreshing is off")
	}
	r.set, r.due = set, time.Time{}
}

// collect returns the next rows to refresh, at most size, and the function that they are given to. If there are
// none, it also returns the time until there may be some. A requested walk, repairs and the rows that are due take
// turns, so that none has to wait for the end of another.
func (r *Refresher[Obj]) collect(now time.Time, size int) (batch []Row[Obj], next time.Duration, give func([]Row[Obj]) (after, upTo statedb.Revision)) {
	for range 3 {
		r.turn = (r.turn + 1) % 3
		give = r.cfg.Give
		switch {
		case r.turn == 0 && r.repair.on():
			batch, give = r.repair.next(r.cfg.Rows, size), r.giveRepairs
		case r.turn == 1 && r.called.on():
			batch = r.called.next(r.cfg.Rows, size)
		case r.turn != 2, r.set.Interval == 0:
		case r.cfg.Rows.Writable == nil:
			batch, next = r.lap.next(r.cfg.Rows, now, r.set.Interval, size, r.cfg.Batches)
		default:
			batch, next = r.collectAged(now, size)
		}
		if len(batch) > 0 {
			return batch, 0, give
		}
	}
	if r.called.on() || r.repair.on() {
		next = 0
	}
	return nil, next, nil
}

// giveRepairs has the loop repair rows. They are marked nowhere.
func (r *Refresher[Obj]) giveRepairs(batch []Row[Obj]) (after, upTo statedb.Revision) {
	r.cfg.Repair(batch)
	return 0, 0
}

// collectAged returns up to size rows whose status is old enough. It stops at the first row that is too
// young, and returns the time until that is old enough.
func (r *Refresher[Obj]) collectAged(now time.Time, size int) (batch []Row[Obj], next time.Duration) {
	read := 0
	for object, revision := range r.cfg.Rows.Table.LowerBound(r.cfg.Rows.DB.ReadTxn(), statedb.ByRevision[Obj](r.aged+1)) {
		s := r.cfg.Rows.Asked(object)
		// A status with a time in the future is from a clock that was set back afterwards.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < r.set.Interval {
			return batch, r.set.Interval - age
		}
		if len(batch) == size || read == glance {
			return batch, 0
		}
		read++
		r.aged = revision
		if s.Kind == status.KindDone {
			batch = append(batch, Row[Obj]{object, revision})
		}
	}
	return batch, r.set.Interval
}

// permitted returns when the limiter allows n rows, and reserves its permits. There may be more rows
// than the limiter's burst.
func (r *Refresher[Obj]) permitted(now time.Time, n int) time.Time {
	if r.set.Limiter == nil {
		return now
	}
	if len(r.reserved) == 0 {
		for range n {
			r.reserved = append(r.reserved, r.set.Limiter.ReserveN(now, 1))
		}
	}
	return now.Add(r.reserved[len(r.reserved)-1].DelayFrom(now))
}

// report reports as health when the next refresh is: at most once a second, if it is sooner than that. The report
// stays until the next one, so it has the time of day.
func (r *Refresher[Obj]) report(now time.Time, next time.Duration) {
	if r.set.Interval > 0 && (next >= time.Second || now.Sub(r.reported) >= time.Second) {
		r.Health.OK(fmt.Sprintf("Next refresh in %s, at %s", next.Round(time.Millisecond), text.Stamp(now.Add(next))))
		r.reported = now
	}
}

// Waiting reports whether the loop has not dealt with the last batch. [Refresher.NoteCall] and
// [Refresher.NotePass] are called only then.
func (r *Refresher[Obj]) Waiting() bool { return r.batch.open }

// NoteCall records that an object was refreshed. took is the time of the call, share the part of it
// that counts for the object.
func (r *Refresher[Obj]) NoteCall(took, share time.Duration, succeeded bool) {
	c := &r.batch.calls
	c.longest = max(c.longest, took, 1)
	c.took += share
	c.succeeded = c.succeeded || succeeded
}

// NotePass records the state of the loop at the end of a pass. The loop has dealt with a batch when a
// cursor has read its marks, and no refresh is ready or in flight. The next batch waits for as long
// again. So refreshes get the time that fresh changes leave, and never more than half of it.
func (r *Refresher[Obj]) NotePass(p Pass) {
	b := &r.batch
	read := p.Seen >= b.upTo || p.CaughtUpFrom <= b.after && p.CaughtUpTo >= b.upTo
	if !read || p.Refreshing > 0 {
		return
	}
	b.open = false
	now := time.Now()
	// Only calls take the loop's time: a wait for the end of a pause, for example, does not count. The
	// time of commits is not known.
	took := min(now.Sub(b.began), b.calls.took+gather)
	r.sizes.note(b.size, took, b.calls)
	if r.owed += took; r.owed >= shortestPause {
		r.free, r.owed = now.Add(r.owed), 0
	}
}
