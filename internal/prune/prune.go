// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/rows"
)

// Config is what a pruner needs of its loop.
type Config[Obj comparable] struct {
	Rows *rows.Rows[Obj]
	// Sweeps: the target is listed, and orphans are deleted by operations.
	Sweeps bool
	// Budget bounds what one sweep may delete.
	Budget Budget
	// Tracks reports whether the loop has something to do for the key of an object.
	Tracks func(Obj) bool
}

// Settings are what a pruner goes by.
type Settings struct {
	// Interval is the time between two prunes; 0 for none.
	Interval time.Duration
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
}

// Pruner decides when to prune. It belongs to one goroutine, but for [Pruner.Refused]. Times are
// those of one clock, from any zero.
type Pruner[Obj comparable] struct {
	Config[Obj]
	// initialized is closed when the table is initialised; nil before the first look and after
	// that.
	initialized <-chan struct{}
	ready       bool
	// called: somebody has asked for a prune; approved: the next sweep has no budget.
	called, approved bool
	// refused: the last sweep that listed the target stopped at its budget.
	refused atomic.Bool
	// gated: there is no sweep before everything up to the revision of gate has been
	// attempted, or is stuck.
	gated bool
	gate  statedb.Revision
	drain drain
	// listed is how much the listing has returned that was begun last. sweep is the one whose
	// listing has ended, and that waits for main; nil if there is none.
	listed int
	sweep  *sweep[Obj]
	// at is when the next prune is due, if scheduled.
	at        time.Duration
	scheduled bool
	// failures counts the failures in a row, failure is the text of the last; empty if the last
	// prune succeeded.
	failures int
	failure  string
}

// New returns a pruner that waits for its table.
func New[Obj comparable](cfg Config[Obj]) *Pruner[Obj] { return &Pruner[Obj]{Config: cfg} }

// Look looks whether the table is initialised: nothing is pruned before. If there is an interval,
// the first prune is due then.
func (p *Pruner[Obj]) Look(txn statedb.ReadTxn, set Settings) {
	if p.ready {
		return
	}
	ready, watch := p.Rows.Table.Initialized(txn)
	if !ready {
		p.initialized = watch
		return
	}
	p.ready, p.initialized = true, nil
	p.gated, p.gate = p.Sweeps, p.Rows.Table.Revision(txn)
	p.called = p.called || set.Interval > 0
}

// Initialized returns a channel that closes when it is time for another look; nil if none is needed.
func (p *Pruner[Obj]) Initialized() <-chan struct{} { return p.initialized }

// Ask asks for a prune as soon as one can be. approve lifts the budget of a sweep, if the last one
// was refused.
func (p *Pruner[Obj]) Ask(approve bool) {
	p.called = true
	p.approved = p.approved || approve && p.refused.Load()
}

// Refused reports whether the last sweep stopped at its budget. It may be called from any goroutine.
func (p *Pruner[Obj]) Refused() bool { return p.refused.Load() }

// Gated reports whether a sweep waits until the objects have been attempted, or are stuck, that the
// table had when it was initialised.
func (p *Pruner[Obj]) Gated() bool { return p.gated }

// Attempted notes up to which revision they are. Nothing need wake the loop for it: what is
// attempted in a round opens the gate at the end of that.
func (p *Pruner[Obj]) Attempted(upTo statedb.Revision) {
	if upTo >= p.gate {
		p.gated = false
	}
}

// Due reports whether it is time to prune.
func (p *Pruner[Obj]) Due(now time.Duration) bool {
	return p.ready && !p.gated && p.sweep == nil && (p.called || p.scheduled && p.at <= now)
}

// Start begins the prune that is due if it overlaps no operation, and returns true; otherwise it may
// hold work back until it does not. idle: no operation is running, but for those that were left
// behind; hangs: one is stuck that was not.
func (p *Pruner[Obj]) Start(now time.Duration, idle, hangs bool) bool {
	if !p.drain.wait(now, idle, hangs) {
		return false
	}
	p.called, p.listed = false, 0
	return true
}

// Draining reports whether work is held back: no operation is to start.
func (p *Pruner[Obj]) Draining() bool { return p.drain.holding }

// CallOff ends the wait for the end of operations.
func (p *Pruner[Obj]) CallOff() { p.drain = drain{} }

// Next returns when the next prune is due, or is to be tried again, or the wait for the operations
// is to be given up; false if none of it is to come.
func (p *Pruner[Obj]) Next() (time.Duration, bool) {
	if at, ok := p.drain.next(); ok {
		return at, true
	}
	return p.at, p.ready && p.scheduled && !p.gated && p.sweep == nil
}

// Over notes that a prune or a sweep is over, with the text of its failure, empty if it succeeded.
// It returns how many have failed in a row, and the time to the next; 0 if there is none. A failure
// is retried with the backoff of objects.
func (p *Pruner[Obj]) Over(now time.Duration, failure string, set Settings) (failures int, after time.Duration) {
	p.failure, after = failure, set.Interval
	if failure == "" {
		p.failures = 0
		p.refused.Store(false)
	} else {
		p.failures++
		wait := backoff.Exponential{Min: set.MinBackoff, Max: set.MaxBackoff}.Delay(p.failures)
		if after == 0 || wait < after {
			after = wait
		}
	}
	p.schedule(now, after)
	return p.failures, after
}

// Failure returns the text of the last failure; empty if the last prune succeeded.
func (p *Pruner[Obj]) Failure() string { return p.failure }

// Reschedule sets the time of the next prune after a change of the interval, unless one is retried.
func (p *Pruner[Obj]) Reschedule(now, interval time.Duration) {
	if p.ready && p.failures == 0 {
		p.schedule(now, interval)
	}
}

// schedule sets the time of the next prune, or that there is none if after is not positive.
func (p *Pruner[Obj]) schedule(now, after time.Duration) {
	// An interval whose end no program lives to see must not wrap around.
	p.at, p.scheduled = now+min(after, math.MaxInt64-now), after > 0
}
