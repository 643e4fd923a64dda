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

// Config is the configuration of a Refresher. All fields but Hand are required.
type Config[Obj comparable] struct {
	// Rows are the rows to refresh. If Hand is set, their functions may be nil.
	Rows *rows.Rows[Obj]
	// Hand gives rows to the loop, which applies them again. at is the revision of the table in the
	// transaction in which they were read. Hand does not wait for the loop. The loop closes taken on its
	// goroutine when it has taken the rows, before the end of that pass.
	//
	// If Hand is nil, the rows are marked in the table.
	Hand func(rows []Row[Obj], at statedb.Revision) (taken <-chan struct{})
	// Batches reports whether the loop's operations come in batches.
	Batches bool
	// Settings returns the current settings.
	Settings func() Settings
	// Stopped is closed when the loop has stopped.
	Stopped <-chan struct{}
}

// Refresher refreshes the rows of a table. [Refresher.Run] is its goroutine. The other methods are
// safe for concurrent use.
type Refresher[Obj comparable] struct {
	Config[Obj]
	// called wakes the goroutine for a walk over all rows.
	called chan struct{}
	all    walkCall[Obj]
	gate   gate
	mode   mode[Obj]
	// reported is when the time of the next refresh was last reported as health.
	reported time.Time
}

// mode is the way in which rows are refreshed: a [marker] marks them in the table, a [hander] hands
// them to the loop.
type mode[Obj any] interface {
	// begin is called before the first batch with new settings.
	begin(set Settings)
	// collect returns the next batch, of at most size rows. If the batch is empty, it also returns
	// the time until the next row is due.
	collect(size int) (b batch[Obj], next time.Duration)
	// give gives a batch to the loop. The channel is closed when the loop has dealt with it.
	give(b batch[Obj]) <-chan struct{}
}

// batch is a batch of rows that are due.
type batch[Obj any] struct {
	rows []Row[Obj]
	// at is the revision of the table when the rows were read; used by a hander only.
	at statedb.Revision
	// advance advances the position in the table beyond the batch. It is called when the batch is given
	// to the loop: a batch that waits for its permits when the settings change is collected again.
	advance func()
}

// Row is a row and its revision.
type Row[Obj any] struct {
	Object   Obj
	Revision statedb.Revision
}

// New returns a Refresher. It does nothing until Run is called.
func New[Obj comparable](cfg Config[Obj]) *Refresher[Obj] {
	r := &Refresher[Obj]{Config: cfg, called: make(chan struct{}, 1)}
	if cfg.Hand != nil {
		r.mode = &hander[Obj]{rows: cfg.Rows, hand: cfg.Hand, batches: cfg.Batches, all: &r.all, gate: &r.gate}
	} else {
		r.mode = &marker[Obj]{rows: cfg.Rows, all: &r.all, gate: &r.gate}
	}
	return r
}

// RefreshAll requests a refresh of all rows that are not written after the call; if rows are marked
// in the table, only of those that are Done. A second call starts over. It does not block.
func (r *Refresher[Obj]) RefreshAll() {
	r.all.call(r.Rows)
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
		r.mode.begin(set)
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
	set   Settings
	sizes sizes
	// pause is the pause before the next batch.
	pause time.Duration
}

// every refreshes until ctx ends or the loop has stopped: rows that are due, if there is an
// interval, and all rows on request.
func (r *run[Obj]) every(ctx context.Context, health cell.Health) {
	for {
		next, ok := r.refresh(ctx)
		if !ok {
			return
		}
		var due <-chan time.Time
		if r.set.Interval > 0 {
			r.report(health, next)
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

// report reports the time until the next refresh as health: at most once a second, if the next
// refresh is sooner than that.
func (r *run[Obj]) report(health cell.Health, next time.Duration) {
	if now := time.Now(); next >= time.Second || now.Sub(r.reported) >= time.Second {
		health.OK(fmt.Sprintf("Next refresh in %s", next))
		r.reported = now
	}
}

// refresh refreshes all rows that are due, batch by batch, and returns the time until the next row
// is due. It returns false when ctx has ended or the loop has stopped.
func (r *run[Obj]) refresh(ctx context.Context) (next time.Duration, ok bool) {
	for {
		b, next := r.mode.collect(r.sizes.next(r.set))
		if len(b.rows) == 0 {
			return next, ctx.Err() == nil && !r.stopped()
		}
		if !permit(ctx, r.set.Limiter, len(b.rows)) {
			return 0, false
		}
		r.gate.begin()
		began := time.Now()
		through := r.mode.give(b)
		b.advance()
		select {
		case <-through:
		case <-ctx.Done():
			return 0, false
		case <-r.Stopped:
			return 0, false
		}
		calls := r.gate.sum()
		// Only calls take the loop's time: a wait for the end of a pause, for example, does not
		// count. The time of commits is not known.
		took := min(time.Since(began), calls.Took+gather)
		r.sizes.noteBatch(len(b.rows), took, calls)
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
