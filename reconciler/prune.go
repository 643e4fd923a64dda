// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
)

// pruner says when to prune.
type pruner[Obj any] struct {
	// initialized is closed when the table is initialised; nil before the first
	// pass and after that.
	initialized <-chan struct{}
	ready       bool
	// called: somebody has called Prune; approved: the next sweep has no budget.
	called, approved bool
	// refused: the last sweep that listed the target stopped at its budget. Others read it.
	refused atomic.Bool
	// gated: there is no sweep before everything up to the revision of gate has been
	// attempted, or is stuck.
	gated bool
	gate  statedb.Revision
	// draining: nothing is started, so that the workers get idle, since drainedFrom
	// and for hold. notBefore is when to try that again.
	draining               bool
	drainedFrom, notBefore time.Duration
	hold                   time.Duration
	// sweep is the one whose listing has ended, and that waits for main; nil if there is
	// none.
	sweep *sweep[Obj]
	// at is when the next prune is due, if scheduled.
	at        time.Duration
	scheduled bool
	// failures counts the failures in a row, failure is the text of the last, with
	// the word "prune" in front; empty if the last prune succeeded.
	failures int
	failure  string
}

// next returns when the next prune is due, or is to be tried again, or the wait for the
// workers is to be given up; false if none of it is in store.
func (p *pruner[Obj]) next() (time.Duration, bool) {
	switch {
	case p.draining:
		return p.drainedFrom + p.hold, true
	case p.notBefore > 0:
		return p.notBefore, true
	}
	return p.at, p.ready && p.scheduled && !p.gated && p.sweep == nil
}

const (
	// minHold is for how long work is held back at first for the workers to get idle for
	// a prune. If that is not enough, it is tried again with twice as much, after a
	// pause of holdShare times as long.
	minHold   = 100 * time.Millisecond
	holdShare = 9
)

// drained reports whether no operation is running, but for those that were left behind, so
// that a prune does not overlap any. If some are, it holds new work back, but not for one that
// hangs: then a prune comes when it is back.
func (l *Loop[Obj]) drained(now time.Duration) bool {
	p := &l.pruner
	switch {
	case l.pool.onlyLeft():
		p.callOff()
		return true
	case l.pool.hangs():
		// It may never come back.
		p.callOff()
		p.notBefore = now + long
	case p.draining && now >= p.drainedFrom+p.hold:
		p.draining = false
		p.notBefore = now + holdShare*p.hold
	case !p.draining && now >= p.notBefore:
		p.draining, p.drainedFrom, p.notBefore = true, now, 0
		p.hold = max(minHold, 2*p.hold)
	}
	return false
}

// callOff ends the wait for the workers.
func (p *pruner[Obj]) callOff() { p.draining, p.hold, p.notBefore = false, 0, 0 }

// schedule sets the time of the next prune, or that there is to be none if after is
// not positive.
func (p *pruner[Obj]) schedule(now, after time.Duration) {
	// An interval that nobody will live to see the end of must not wrap around.
	p.at, p.scheduled = now+min(after, math.MaxInt64-now), after > 0
}

// pruneDue reports whether it is time to prune: not before the table is initialised.
func (l *Loop[Obj]) pruneDue(txn statedb.ReadTxn, now time.Duration) bool {
	p := &l.pruner
	if !p.ready {
		ready, watch := l.rows.Table.Initialized(txn)
		if !ready {
			p.initialized = watch
			return false
		}
		p.ready, p.initialized = true, nil
		p.gated, p.gate = l.cfg.Sweeper != nil, l.rows.Table.Revision(txn)
		p.called = p.called || l.set.PruneInterval > 0
	}
	if l.pause.whole || p.sweep != nil || !l.sweepDue() {
		return false
	}
	return p.called || p.scheduled && p.at <= now
}

// prune removes from the target what the snapshot does not have, or lists it for a sweep to do
// so. The snapshot is that of the round that has just ended, so that it has every object whose
// operation has started.
func (l *Loop[Obj]) prune(ctx context.Context, r *Round, txn statedb.ReadTxn) {
	p := &l.pruner
	p.called = false
	if ctx.Err() != nil || l.cfg.Pruner == nil && l.cfg.Sweeper == nil {
		return
	}
	began := l.now()
	record := &PruneRecord{}
	l.doing = doingPrune
	l.watchdog.begin(l, began)
	err := l.callPrune(ctx, txn, record)
	l.watchdog.end()
	l.doing = doingNothing
	record.Took = l.now() - began
	if p.sweep != nil {
		p.scheduled = false
		l.finishSweep(r)
		return
	}
	l.pruned(r, record, err)
}

// pruned takes in that a prune or a sweep is over. A failure is retried with the backoff of
// objects.
func (l *Loop[Obj]) pruned(r *Round, record *PruneRecord, err error) {
	p := &l.pruner
	r.Prune = record
	after := l.set.PruneInterval
	if err == nil {
		p.failures, p.failure = 0, ""
		p.refused.Store(false)
	} else {
		p.failures++
		wait := backoff.Exponential{Min: l.set.MinBackoff, Max: l.set.MaxBackoff}.Delay(p.failures)
		if after == 0 || wait < after {
			after = wait
		}
		err = kept(err, l.errorClass)
		r.Prune.Error = strings.Clone(textOf(err))
		err = fmt.Errorf("prune: %w", err)
		p.failure = err.Error()
		l.log.Warn("prune failed", "error", err, "failures", p.failures, "retryAfter", after)
	}
	p.schedule(l.now(), after)
	l.metrics.PruneDuration(r.Prune.Took)
	l.metrics.PruneError(err)
}

func (l *Loop[Obj]) callPrune(ctx context.Context, txn statedb.ReadTxn, record *PruneRecord) (err error) {
	g := guard{log: l.log, panics: l.cfg.PanicPropagation, tally: &l.book.tally}
	s := l.scope.Load()
	s.calling.Store(&calling{operation: "prune", since: l.now()})
	defer s.calling.Store(nil)
	defer g.recovered("prune", &err)
	if l.cfg.Sweeper != nil {
		return l.listSweep(ctx, txn, record)
	}
	return l.cfg.Pruner.Prune(ctx, txn, l.rows.Table.All(txn))
}
