// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
)

// shortestPause is the shortest pause between two batches: timers are no finer. What is shorter is
// added to the next one.
const shortestPause = time.Millisecond

// Settings are what a refresher goes by.
type Settings struct {
	// Interval is the age at which a row is refreshed; 0 for none.
	Interval time.Duration
	// Limiter bounds the rate of refreshes; nil for no bound.
	Limiter *rate.Limiter
	// RoundSize bounds the size of a batch for operations that come in batches.
	RoundSize int
	// Replaced ends when other settings are in force.
	Replaced context.Context
}

// Config is what a refresher needs of its loop.
type Config[Obj comparable] struct {
	Rows *rows.Rows[Obj]
	// Batches: operations come in batches.
	Batches bool
	// Settings returns those that are in force.
	Settings func() Settings
	// Stopped is closed when the loop has stopped.
	Stopped <-chan struct{}
}

// Refresher refreshes the rows of a table. [Refresher.Run] is its goroutine; the other methods are
// safe from any.
type Refresher[Obj comparable] struct {
	Config[Obj]
	// called wakes the goroutine for a walk over all rows.
	called chan struct{}
	all    walkCall[Obj]
	gate   gate
}

// New returns a refresher that does nothing until it is run.
func New[Obj comparable](cfg Config[Obj]) *Refresher[Obj] {
	return &Refresher[Obj]{Config: cfg, called: make(chan struct{}, 1)}
}

// All asks for a refresh of all rows that are Done and not written after the call. A second call
// starts over.
func (r *Refresher[Obj]) All() {
	r.all.call()
	select {
	case r.called <- struct{}{}:
	default:
	}
}

// Waiting reports whether [Refresher.Passed] and [Refresher.Ran] have to be called. While it is
// false, the loop need not compute what these take.
func (r *Refresher[Obj]) Waiting() bool { return r.gate.open.Load() }

// Passed notes how far the loop is at the end of a pass.
func (r *Refresher[Obj]) Passed(p Pass) { r.gate.passed(p) }

// Ran notes what calls of operations came to in which objects were refreshed.
func (r *Refresher[Obj]) Ran(c Calls) { r.gate.ran(c) }

// Run refreshes until ctx ends or the loop has stopped.
func (r *Refresher[Obj]) Run(ctx context.Context, health cell.Health) {
	on := false
	for ctx.Err() == nil && !r.stopped() {
		set := r.Settings()
		// No wait goes on with settings that are not in force any more.
		during, end := context.WithCancel(ctx)
		ended := context.AfterFunc(set.Replaced, end)
		if set.Interval > 0 {
			on = true
		} else if on {
			on = false
			health.OK("Refreshing is off")
		}
		(&run[Obj]{Refresher: r, set: set, sizes: sizes{batches: r.Batches}}).every(during, health)
		ended()
		end()
	}
}

func (r *Refresher[Obj]) stopped() bool {
	select {
	case <-r.Stopped:
		return true
	default:
		return false
	}
}

// run is the refreshing between two changes of the settings.
type run[Obj comparable] struct {
	*Refresher[Obj]
	set Settings
	// seen is the revision up to which objects have been looked at for their age.
	seen  statedb.Revision
	sizes sizes
	// owed is for how long it has to pause yet.
	owed  time.Duration
	batch []aged[Obj]
	// walk is how far the walk of a call will be when the batch is marked, number that of the
	// call; 0 if the batch is of no call.
	walk   walk[Obj]
	number int
}

// every refreshes until ctx ends or the loop has stopped: what is old enough, if there is an
// interval, and what somebody calls for.
func (r *run[Obj]) every(ctx context.Context, health cell.Health) {
	for {
		next, ok := r.refresh(ctx)
		if !ok {
			return
		}
		var due <-chan time.Time
		if r.set.Interval > 0 {
			health.OK(fmt.Sprintf("Next refresh in %s", next))
			due = time.After(next)
		}
		select {
		case <-ctx.Done():
		case <-r.Stopped:
		case <-r.called:
		case <-due:
		}
	}
}

// refresh marks everything that is due, batch by batch, and returns how long it is until the next
// object is. It returns false when ctx has ended or the loop has stopped.
func (r *run[Obj]) refresh(ctx context.Context) (next time.Duration, ok bool) {
	for {
		size := r.sizes.next(r.set)
		if !r.collectCalled(size) {
			next = r.collectAged(size)
		}
		if len(r.batch) == 0 {
			return next, ctx.Err() == nil && !r.stopped()
		}
		if !permit(ctx, r.set.Limiter, len(r.batch)) {
			return 0, false
		}
		r.gate.begin()
		began := time.Now()
		select {
		case <-r.gate.wait(r.mark()):
		case <-ctx.Done():
			return 0, false
		case <-r.Stopped:
			return 0, false
		}
		calls := r.gate.sum()
		// To wait for the end of a pause, say, takes nothing of the loop's time. What commits
		// take of it is not known.
		took := min(time.Since(began), calls.Took+gather)
		r.sizes.ran(len(r.batch), took, calls)
		clear(r.batch)
		r.batch = r.batch[:0]
		// The next batch waits until no refresh is on its way, and then for as long again:
		// refreshing fills what fresh changes leave of the loop's time, and never more
		// than half of it.
		if r.owed += took; r.owed >= shortestPause {
			if !pace.Sleep(ctx, r.owed) {
				return 0, false
			}
			r.owed = 0
		}
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
