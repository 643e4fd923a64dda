// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/status"
)

const (
	// refreshBatch is the largest number of objects that are marked in one write
	// transaction for single operations. It bounds how long a fresh change waits behind a
	// refresh.
	refreshBatch = 128
	// refreshGather is for how long a slow limiter's permits are gathered into one
	// batch.
	refreshGather = 100 * time.Millisecond
	// refreshPause is the shortest pause that a refresh makes: timers are no finer.
	refreshPause = time.Millisecond
)

// aged is an object that is to be refreshed.
type aged[Obj any] struct {
	object   Obj
	revision statedb.Revision
	// at is when its status was written.
	at time.Time
}

// refreshCall is a call for a refresh of everything: one walk over the table in the order of
// the keys, in which no row changes its place, however often it is written meanwhile.
type refreshCall[Obj any] struct {
	mu   sync.Mutex
	walk refreshWalk[Obj]
	// calls counts them.
	calls int
}

// refreshWalk is how far such a walk is.
type refreshWalk[Obj any] struct {
	// at is when it was called for; the zero time if there is no walk.
	at time.Time
	// last is the object that it has come to, if it has begun.
	last  Obj
	begun bool
}

// call begins the walk, from the start if there is one.
func (c *refreshCall[Obj]) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.walk = refreshWalk[Obj]{at: time.Now()}
}

// now returns how far the walk is, and the number of the call.
func (c *refreshCall[Obj]) now() (refreshWalk[Obj], int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk, c.calls
}

// goOn notes how far the walk is, unless there was another call.
func (c *refreshCall[Obj]) goOn(w refreshWalk[Obj], call int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == call {
		c.walk = w
	}
}

// refresher is the state of the job that refreshes.
type refresher[Obj any] struct {
	*configuration
	health cell.Health
	// seen is the revision up to which objects have been looked at for their age.
	seen  statedb.Revision
	sizes refreshSizes
	// owed is for how long the refresher has to pause yet.
	owed  time.Duration
	batch []aged[Obj]
	// walk is how far the walk of a call will be when the batch is marked, called the number
	// of the call; 0 if the batch is of no call.
	walk   refreshWalk[Obj]
	called int
}

// refresh is the job that marks Done objects as Refreshing when their status is older
// than the refresh interval. It walks the table in revision order, the longest
// unwritten first, and stops at the first that is too young.
//
// If a function of the program ends its goroutine, the job ends with an error, and the loop goes
// on without.
func (l *Loop[Obj]) refresh(ctx context.Context, health cell.Health) error {
	if returned(func() { l.refreshUntil(ctx, health) }) {
		return nil
	}
	err := fmt.Errorf("reconciler %q: refreshing has ended in a function of the program: %w", called(l.ID()), errGoexit)
	l.log.Error("refreshing has ended", "error", err)
	health.Degraded("Refreshing has ended", err)
	return err
}

// refreshUntil refreshes until ctx or the loop ends.
func (l *Loop[Obj]) refreshUntil(ctx context.Context, health cell.Health) {
	on := false
	for ctx.Err() == nil && !l.stopped() {
		set := l.settings.Load()
		// Whatever it waits for, it is not to go on with settings that are not in force.
		during, end := context.WithCancel(ctx)
		ended := context.AfterFunc(set.refreshing, end)
		if set.RefreshInterval > 0 {
			on = true
		} else if on {
			on = false
			health.OK("Refreshing is off")
		}
		l.refreshEvery(during, &refresher[Obj]{configuration: set, health: health})
		ended()
		end()
	}
}

// refreshEvery refreshes until ctx or the loop ends: what is old enough, if there is an
// interval, and what somebody calls for.
func (l *Loop[Obj]) refreshEvery(ctx context.Context, r *refresher[Obj]) {
	for {
		next, ok := l.refreshDue(ctx, r)
		if !ok {
			return
		}
		var due <-chan time.Time
		if r.RefreshInterval > 0 {
			r.health.OK(fmt.Sprintf("Next refresh in %s", next))
			due = time.After(next)
		}
		select {
		case <-ctx.Done():
		case <-l.ended:
		case <-l.refreshCalled:
		case <-due:
		}
	}
}

// refreshDue marks everything that is due, batch by batch, and returns how long it is until
// the next object is. It returns false when ctx or the loop has ended.
func (l *Loop[Obj]) refreshDue(ctx context.Context, r *refresher[Obj]) (next time.Duration, ok bool) {
	for {
		size := r.sizes.size(&r.Settings, l.batches())
		if !l.collectCalled(r, size) {
			next = l.collectAged(r, size)
		}
		if len(r.batch) == 0 {
			return next, ctx.Err() == nil && !l.stopped()
		}
		if !permit(ctx, r.RefreshLimiter, len(r.batch)) {
			return 0, false
		}
		g := &l.refreshGate
		g.begin()
		began := time.Now()
		select {
		case <-g.wait(l.mark(r)):
		case <-ctx.Done():
			return 0, false
		case <-l.ended:
			return 0, false
		}
		longest, spent, done := g.calls()
		// To wait for the end of a pause, say, takes nothing of the loop's time. What commits
		// take of it is not known.
		took := min(time.Since(began), spent+refreshGather)
		r.sizes.ran(len(r.batch), took, longest, done)
		clear(r.batch)
		r.batch = r.batch[:0]
		// The next batch waits until no refresh is on its way, and then for as long again:
		// refreshing fills what fresh changes leave of the loop's time, and never more
		// than half of it.
		if r.owed += took; r.owed >= refreshPause {
			if !pace.Sleep(ctx, r.owed) {
				return 0, false
			}
			r.owed = 0
		}
	}
}

// collectCalled makes a batch of up to size objects that somebody called for. It returns false
// if there is no such call, or no object left.
func (l *Loop[Obj]) collectCalled(r *refresher[Obj], size int) bool {
	w, call := l.refreshCall.now()
	r.called = 0
	if w.at.IsZero() {
		return false
	}
	txn, now := l.rows.DB.ReadTxn(), time.Now()
	rows := l.rows.Table.All(txn)
	var from []byte
	if w.begun {
		rows, from = l.rows.Table.LowerBound(txn, l.rows.Query(w.last)), l.rows.Key(w.last)
	}
	for object, revision := range rows {
		if from != nil && bytes.Equal(l.rows.Key(object), from) {
			continue
		}
		if len(r.batch) == size {
			r.walk, r.called = w, call
			return true
		}
		w.last, w.begun, from = object, true, nil
		s := l.rows.GetStatus(object)
		// One that was written since is fresh. A status of the future is from a clock that
		// was set back since.
		if s.Kind == status.KindDone && (!s.UpdatedAt.After(w.at) || s.UpdatedAt.After(now)) {
			r.batch = append(r.batch, aged[Obj]{object, revision, s.UpdatedAt})
		}
	}
	r.walk, r.called = refreshWalk[Obj]{}, call
	if len(r.batch) == 0 {
		l.refreshCall.goOn(r.walk, call)
		return false
	}
	return true
}

// collectAged makes a batch of up to size objects that are old enough, from the revision after
// the one that was seen on. It returns how long it is until there is another, if it found none.
func (l *Loop[Obj]) collectAged(r *refresher[Obj], size int) time.Duration {
	interval := r.RefreshInterval
	if interval == 0 {
		return never
	}
	txn := l.rows.DB.ReadTxn()
	now := time.Now()
	for object, revision := range l.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](r.seen+1)) {
		s := l.rows.GetStatus(object)
		// A status of the future is from a clock that was set back since.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < interval {
			return interval - age
		}
		r.seen = revision
		if s.Kind != status.KindDone {
			continue
		}
		r.batch = append(r.batch, aged[Obj]{object, revision, s.UpdatedAt})
		if len(r.batch) == size {
			break
		}
	}
	return interval
}

// mark marks the batch, and returns the revisions of the table before and after. A walk goes on
// only then: until it is marked, a batch is dropped when the settings are changed.
func (l *Loop[Obj]) mark(r *refresher[Obj]) (before, after statedb.Revision) {
	before, after = l.markRefreshing(r.batch)
	if r.called > 0 {
		l.refreshCall.goOn(r.walk, r.called)
	}
	return before, after
}

// markRefreshing marks the objects in one transaction, unless their status has been written
// since. It returns the revisions of the table before and after.
func (l *Loop[Obj]) markRefreshing(batch []aged[Obj]) (before, after statedb.Revision) {
	at := time.Now()
	marked := func(object Obj) Obj { return l.rows.SetStatus(l.rows.Clone(object), status.RefreshingAt(at)) }
	rows := make([]Obj, len(batch))
	for i := range batch {
		rows[i] = marked(batch[i].object)
	}
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	defer wtxn.Abort()
	before = l.rows.Table.Revision(wtxn)
	for i := range batch {
		if _, _, err := l.rows.Table.CompareAndSwap(wtxn, batch[i].revision, rows[i]); err == nil {
			continue
		}
		// Another reconciler may have written the row.
		row, _, found := l.rows.Get(wtxn, batch[i].object)
		if !found {
			continue
		}
		if s := l.rows.GetStatus(row); s.Kind == status.KindDone && s.UpdatedAt.Equal(batch[i].at) {
			_, _, _ = l.rows.Table.Insert(wtxn, marked(row))
		}
	}
	return before, l.rows.Table.Revision(wtxn.Commit())
}

// refreshSizes says how many objects to mark at a time, from what the last ones took.
type refreshSizes struct {
	// single is the size for single operations, batch the one for batches; 0 at first.
	single, batch int
	// calls are the latest that succeeded, of which there were so many; last is the one
	// before, whatever came of it.
	calls [16]time.Duration
	count int
	last  time.Duration
}

// size returns how many objects to mark at most.
func (z *refreshSizes) size(s *Settings, batches bool) int {
	most, size, gather := refreshBatch, z.single, refreshGather
	if batches {
		// It is not known yet what a call costs, nor how much of that each object.
		most, size, gather = s.RoundSize, max(1, z.batch), max(gather, 2*z.last)
	}
	if s.RefreshLimiter != nil {
		most = int(max(1, min(float64(s.RefreshLimiter.Limit())*gather.Seconds(), float64(most))))
	}
	if size == 0 {
		return most
	}
	return min(size, most)
}

// ran notes that a number of objects was through after some time, and how long the longest call
// for some of them took, 0 if there was none. done: some of that succeeded.
//
// Single operations take the time that a turn does: fresh changes are not to wait for more. For
// batches it depends on how much of a call's time each object costs, which the caller cannot
// know: the size is doubled while a call takes no longer than a turn, or than twice the shortest
// of late, and quartered otherwise. Where each object costs the same, the quarter keeps showing
// how short a call can be; with a half the size would creep up.
func (z *refreshSizes) ran(size int, took, longest time.Duration, done bool) {
	z.single = int(max(1, min(refreshBatch, float64(size)*float64(pace.Turn)/float64(max(1, took)))))
	if longest == 0 {
		return
	}
	z.last = longest
	if done {
		z.calls[z.count%len(z.calls)] = longest
		z.count++
	}
	limit := pace.Turn
	if n := min(z.count, len(z.calls)); n > 0 {
		limit = max(limit, 2*slices.Min(z.calls[:n]))
	}
	if longest <= limit {
		z.batch = max(z.batch, 2*size)
	} else {
		z.batch = max(1, size/4)
	}
}

// permit blocks until the limiter allows n more refreshes, and returns false if ctx
// ends before. A batch may be larger than the limiter's burst: it is marked when the
// last of its objects may be.
func permit(ctx context.Context, limiter *rate.Limiter, n int) bool {
	if limiter == nil {
		return ctx.Err() == nil
	}
	now := time.Now()
	reserved := make([]*rate.Reservation, n)
	for i := range reserved {
		reserved[i] = limiter.ReserveN(now, 1)
	}
	if pace.Sleep(ctx, reserved[n-1].DelayFrom(now)) {
		return true
	}
	for _, r := range slices.Backward(reserved) {
		r.Cancel()
	}
	return false
}
