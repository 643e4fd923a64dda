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

// shortestPause is the shortest pause between two batches: timers are no finer. A shorter pause is
// added to the next one.
const shortestPause = time.Millisecond

// Settings are the settings of a Refresher. They can change while it runs.
type Settings struct {
	// Interval is the age of a status at which its row is refreshed; 0 for never.
	Interval time.Duration
	// Limiter bounds the rate of refreshed rows; nil for no bound.
	Limiter *rate.Limiter
	// RoundSize bounds the rows of a batch if operations come in batches.
	RoundSize int
	// Replaced ends when other settings take effect.
	Replaced context.Context
}

// Config is the configuration of a Refresher. All fields are required.
type Config[Obj comparable] struct {
	Rows *rows.Rows[Obj]
	// Batches reports whether the loop's operations come in batches.
	Batches bool
	// Settings returns the current settings.
	Settings func() Settings
	// Stopped is closed when the loop has stopped.
	Stopped <-chan struct{}
	// Hand is a stub until the laps are merged.
	Hand func(ctx context.Context, rows []Obj) error
}

// Refresher refreshes the rows of a table. [Refresher.Run] is its goroutine. The other methods are
// safe for concurrent use.
type Refresher[Obj comparable] struct {
	Config[Obj]
	// called wakes the goroutine for a walk over all rows.
	called chan struct{}
	all    walkCall[Obj]
	gate   gate
}

// New returns a Refresher. It does nothing until Run is called.
func New[Obj comparable](cfg Config[Obj]) *Refresher[Obj] {
	return &Refresher[Obj]{Config: cfg, called: make(chan struct{}, 1)}
}

// RefreshAll requests a refresh of all rows that are Done and are not written after the call. A
// second call starts over. It does not block.
func (r *Refresher[Obj]) RefreshAll() {
	r.all.call()
	select {
	case r.called <- struct{}{}:
	default:
	}
}

// Waiting reports whether the Refresher waits for the loop. If not, the loop need not compute the
// arguments of [Refresher.NotePass] and [Refresher.NoteCalls], nor call them.
func (r *Refresher[Obj]) Waiting() bool { return r.gate.open.Load() }

// NotePass records the state of the loop at the end of a pass.
func (r *Refresher[Obj]) NotePass(p Pass) { r.gate.notePass(p) }

// NoteCalls records calls of operations that refreshed objects.
func (r *Refresher[Obj]) NoteCalls(c Calls) { r.gate.noteCalls(c) }

// Run refreshes until ctx ends or the loop has stopped.
func (r *Refresher[Obj]) Run(ctx context.Context, health cell.Health) {
	on := false
	for ctx.Err() == nil && !r.stopped() {
		set := r.Settings()
		// A wait ends when the settings are replaced.
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

// run refreshes with one set of settings.
type run[Obj comparable] struct {
	*Refresher[Obj]
	set Settings
	// seen is the revision up to which the age of rows has been checked.
	seen  statedb.Revision
	sizes sizes
	// pause is the pause before the next batch.
	pause time.Duration
	batch []aged[Obj]
	// walk is the state of a request's walk after the batch has been marked. number is the number
	// of the request; 0 if the batch is not for a request.
	walk   walk[Obj]
	number int
}

// every refreshes until ctx ends or the loop has stopped: rows that are old enough, if there is an
// interval, and all rows on request.
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

// refresh marks all rows that are due, batch by batch, and returns the time until the next row is
// due. It returns false when ctx has ended or the loop has stopped.
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
		// Only calls take the loop's time: a wait for the end of a pause, for example, does not
		// count. The time of commits is not known.
		took := min(time.Since(began), calls.Took+gather)
		r.sizes.noteBatch(len(r.batch), took, calls)
		clear(r.batch)
		r.batch = r.batch[:0]
		// The next batch waits until no refresh is ready or in flight, and then for as long again.
		// So refreshes get the time that fresh changes leave, and never more than half of it.
		if r.pause += took; r.pause >= shortestPause {
			if !pace.Sleep(ctx, r.pause) {
				return 0, false
			}
			r.pause = 0
		}
	}
}

// permit blocks until the limiter allows n more refreshes, and returns false if ctx ends first. A
// batch may be larger than the limiter's burst: permit waits until the last of its rows is allowed.
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
