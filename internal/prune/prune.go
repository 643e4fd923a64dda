// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/internal/rows"
)

// Config is the configuration of a Pruner.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// Lists reports whether the target is listed, and the loop deletes the orphans by operations.
	Lists bool
}

// Settings are the settings of a Pruner. They can change while it runs.
type Settings struct {
	// Interval is the time between two prunes; 0 for no periodic prunes.
	Interval time.Duration
	// Once: there is a first one also without an interval.
	Once bool
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
}

// Pruner decides when to prune. It belongs to one goroutine, except [Pruner.Refused]. Times are
// those of one clock, with any zero.
type Pruner[Obj any] struct {
	cfg Config[Obj]
	// initialized is closed when the table is initialised. It is nil before the first Look, and
	// once ready is set.
	initialized <-chan struct{}
	ready       bool
	// requested: a prune was requested. approved: the next resync has no budget. running: a prune has begun
	// and not ended.
	requested, approved, running bool
	// refused: the last resync whose listing succeeded stopped at its budget.
	refused atomic.Bool
	// gate is the revision up to which everything must have been attempted before a resync; 0 if that is so.
	gate  statedb.Revision
	drain drain
	// at is when the next prune is due; valid if scheduled.
	at        time.Duration
	scheduled bool
	// failures counts the failures in a row. failure is the text of the last one; empty if the last
	// prune succeeded. awaits: it was a resync that awaits approval.
	failures int
	failure  string
	awaits   bool
}

// New returns a Pruner whose table is not known to be initialised.
func New[Obj any](cfg Config[Obj]) *Pruner[Obj] { return &Pruner[Obj]{cfg: cfg} }

// Look checks whether the table is initialised; nothing is pruned before it is. If there is an
// interval, the first prune is due then.
func (p *Pruner[Obj]) Look(txn statedb.ReadTxn, set Settings) {
	if p.ready {
		return
	}
	ready, watch := p.cfg.Rows.Table.Initialized(txn)
	if !ready {
		p.initialized = watch
		return
	}
	p.ready, p.initialized = true, nil
	if p.cfg.Lists {
		p.gate = p.cfg.Rows.Table.Revision(txn)
	}
	p.requested = p.requested || set.Interval > 0 || set.Once
}

// Initialized returns a channel that is closed when Look must be called again; nil if it need not
// be.
func (p *Pruner[Obj]) Initialized() <-chan struct{} { return p.initialized }

// Ready reports whether the table is initialised, and everything that it had then was attempted where the target is
// listed.
func (p *Pruner[Obj]) Ready() bool { return p.ready && !p.Gated() }

// RaiseGate has all that the initialised table has got, up to the given revision, be attempted before Ready is true.
func (p *Pruner[Obj]) RaiseGate(revision statedb.Revision) {
	if p.ready {
		p.gate = revision
	}
}

// IsApproved reports whether the next resync has no budget.
func (p *Pruner[Obj]) IsApproved() bool { return p.approved }

// EndApproval ends the approval: it was for one resync.
func (p *Pruner[Obj]) EndApproval() { p.approved = false }

// Request requests a prune as soon as possible. approve lifts the budget of that resync, if the last
// resync was refused.
func (p *Pruner[Obj]) Request(approve bool) {
	p.requested = true
	p.approved = p.approved || approve && p.refused.Load()
}

// Refused reports whether the last resync stopped at its budget. It may be called from any
// goroutine.
func (p *Pruner[Obj]) Refused() bool { return p.refused.Load() }

// Gated reports whether resyncs wait until all objects that the table had when it was initialised
// have been attempted.
func (p *Pruner[Obj]) Gated() bool { return p.gate > 0 }

// NoteAttempted records the revision up to which everything has been attempted. Call it at the end of
// a round while Gated returns true.
func (p *Pruner[Obj]) NoteAttempted(upTo statedb.Revision) {
	if upTo >= p.gate {
		p.gate = 0
	}
}

// mayRun reports whether a prune may begin when it is requested or its time has come. early: it need not wait for the
// table.
func (p *Pruner[Obj]) mayRun(early bool) bool { return (early || p.Ready()) && !p.running }

// Due reports whether it is time to prune. early: it is the first listing of a loop that adopts, which waits for
// nothing.
func (p *Pruner[Obj]) Due(now time.Duration, early bool) bool {
	return p.mayRun(early) && (p.requested || p.scheduled && p.at <= now)
}

// Start begins the due prune and returns true, if no operation is running. Otherwise it returns
// false, and may hold work back until none is running, unless one is stuck (hangs). idle reports that
// no operation is running.
func (p *Pruner[Obj]) Start(now time.Duration, idle, hangs bool) bool {
	if !p.drain.wait(now, idle, hangs) {
		return false
	}
	p.requested, p.scheduled, p.running = false, false, true
	return true
}

// Abandon records that the prune that has begun was cut off by the end of the loop: another is due at once.
func (p *Pruner[Obj]) Abandon() { p.requested, p.running = true, false }

// Draining reports whether work is held back: then no operation may start.
func (p *Pruner[Obj]) Draining() bool { return p.drain.holding }

// StopDraining stops holding work back.
func (p *Pruner[Obj]) StopDraining() { p.drain = drain{} }

// Next returns when the next prune is due, or when Start must be called again; false if neither is
// planned. early is as for Due.
func (p *Pruner[Obj]) Next(early bool) (time.Duration, bool) {
	if at, ok := p.drain.next(); ok {
		return at, true
	}
	return p.at, p.scheduled && p.mayRun(early)
}

// NoteEnd records the end of a prune or a resync with its error. It returns the number of failures in a row,
// and the time until the next prune; 0 if none is planned. After a failure that time is the backoff of
// objects, or the interval if that is shorter. Objects that are left alone are no failure: another listing would have them, too.
func (p *Pruner[Obj]) NoteEnd(now time.Duration, err error, set Settings) (failures int, after time.Duration) {
	p.failure, p.awaits, p.running, after = "", errors.Is(err, resync.ErrAwaits), false, set.Interval
	if err != nil {
		p.failure = err.Error()
	}
	if err == nil || errors.Is(err, resync.ErrLeftAlone) && !p.awaits {
		p.failures = 0
		p.refused.Store(false)
	} else {
		p.failures++
		if p.awaits {
			p.refused.Store(true)
		}
		wait := backoff.Exponential{Min: set.MinBackoff, Max: set.MaxBackoff}.Delay(p.failures)
		if after == 0 || wait < after {
			after = wait
		}
	}
	p.schedule(now, after)
	return p.failures, after
}

// Failure returns the text of the last failure; empty if the last prune succeeded. awaits reports whether it
// was a resync that awaits approval.
func (p *Pruner[Obj]) Failure() (text string, awaits bool) { return p.failure, p.awaits }

// Reschedule sets the time of the next prune after a change of the interval, unless the last prune
// failed and waits for its retry.
func (p *Pruner[Obj]) Reschedule(now, interval time.Duration) {
	if p.ready && p.failures == 0 {
		p.schedule(now, interval)
	}
}

// schedule sets the time of the next prune; none if after is not positive.
func (p *Pruner[Obj]) schedule(now, after time.Duration) {
	// The sum must not overflow.
	p.at, p.scheduled = now+min(after, math.MaxInt64-now), after > 0
}
