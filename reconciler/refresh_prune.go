// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// ApproveSweep asks for a sweep now that may delete any number of objects, whatever
// [WithSweepBudget] says. It is for a person who has seen in health that a sweep stopped at
// its budget, and knows why. It holds for one listing that succeeds; if that of the sweep
// fails it holds for the next. It does not wait for the sweep. If the last sweep did not stop at its
// budget it does nothing and returns false. Safe from any goroutine.
func (l *Loop[Obj]) ApproveSweep() bool {
	if !l.pruner.Refused() {
		return false
	}
	l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	return true
}

// pruning returns what of the settings the pruner goes by.
func (s *Settings) pruning() prune.Settings {
	return prune.Settings{Interval: s.PruneInterval, MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff}
}

// prune ends the sweep that waits for main, and begins the prune that is due: it removes from the
// target what the snapshot does not have, or lists it for a sweep to do so. The snapshot is that of
// the round that has just ended, so that it has every object whose operation has started.
func (l *Loop[Obj]) prune(ctx context.Context, r *inspect.Round, txn statedb.ReadTxn, now time.Duration) {
	l.finishSweep(r)
	p := l.pruner
	p.Look(txn, l.set.pruning())
	if p.Gated() && !l.pause.whole {
		p.NoteAttempted(l.core.AttemptedExceptStuck(l.observer.Revision()))
	}
	if l.pause.whole || !p.Due(now) {
		p.StopDraining()
		return
	}
	if !p.Start(now, l.pool.OnlyLeft(), l.pool.Hangs()) || ctx.Err() != nil || l.cfg.Pruner == nil && l.cfg.Sweeper == nil {
		return
	}
	began := l.now()
	l.doing = doingPrune
	l.reporter.Begin(began)
	err := l.callPrune(ctx, txn)
	l.reporter.End()
	l.doing = doingNothing
	took := l.now() - began
	if listed, sweeping := p.NoteListed(took); sweeping {
		l.finishSweep(r)
	} else {
		l.pruned(r, &inspect.Prune{Took: took, Listed: listed}, err)
	}
}

// finishSweep makes the orphans of a sweep owe their deletion, once main is far enough.
func (l *Loop[Obj]) finishSweep(r *inspect.Round) {
	found, ok := l.pruner.Finish(l.observer.Revision())
	if !ok {
		return
	}
	record := &inspect.Prune{Took: found.Took, Listed: found.Listed}
	for _, orphan := range found.Orphans {
		if l.core.AddOrphan(orphan, found.Revision) {
			record.Swept++
		}
	}
	l.pruned(r, record, found.Err)
}

// pruned takes in that a prune or a sweep is over.
func (l *Loop[Obj]) pruned(r *inspect.Round, record *inspect.Prune, err error) {
	r.Prune = record
	failure := ""
	if err != nil {
		err = outcome.Keep(err, l.classes.ByFunction)
		record.Error = strings.Clone(outcome.TextOf(err))
		err = fmt.Errorf("prune: %w", err)
		failure = err.Error()
	}
	failures, after := l.pruner.NoteEnd(l.now(), failure, l.set.pruning())
	if err != nil {
		l.log.Warn("prune failed", "error", err, "failures", failures, "retryAfter", after)
	}
	l.metrics.PruneDuration(record.Took)
	l.metrics.PruneError(err)
}

func (l *Loop[Obj]) callPrune(ctx context.Context, txn statedb.ReadTxn) (err error) {
	s := l.scope.Load()
	s.Begin("prune", 0, l.now())
	defer s.End()
	defer l.calling.Recover("prune", &err)
	if l.cfg.Sweeper != nil {
		return l.pruner.List(ctx, txn, l.cfg.Sweeper.List)
	}
	return l.cfg.Pruner.Prune(ctx, txn, l.rows.Table.All(txn))
}

// newRefresher returns what refreshes the rows of the loop.
func (l *Loop[Obj]) newRefresher() *refresh.Refresher[Obj] {
	return refresh.New(refresh.Config[Obj]{
		Rows: l.rows, Batches: l.batches(), Stopped: l.ended,
		Settings: func() refresh.Settings {
			c := l.settings.Load()
			return refresh.Settings{
				Interval: c.RefreshInterval, Limiter: c.RefreshLimiter, RoundSize: c.RoundSize, Replaced: c.refreshing,
			}
		},
	})
}

// refresh is the job that refreshes. If a function of the program ends its goroutine, the job ends
// with an error, and the loop goes on without.
func (l *Loop[Obj]) refresh(ctx context.Context, health cell.Health) error {
	if returned(func() { l.refresher.Run(ctx, health) }) {
		return nil
	}
	err := fmt.Errorf("reconciler %q: refreshing has ended in a function of the program: %w", called(l.ID()), execute.ErrGoexit)
	l.log.Error("refreshing has ended", "error", err)
	health.Degraded("Refreshing has ended", err)
	return err
}

// tellRefresher tells the refresher how far the loop is at the end of a pass.
func (l *Loop[Obj]) tellRefresher() {
	if !l.refresher.Waiting() {
		return
	}
	p := refresh.Pass{Seen: l.observer.Revision(), Refreshing: l.core.Refreshing()}
	p.CaughtUpFrom, p.CaughtUpTo = l.observer.CaughtUp()
	l.refresher.NotePass(p)
}

// tellRefresherOf tells the refresher of the calls for a batch.
func (l *Loop[Obj]) tellRefresherOf(b *batch[Obj]) {
	if !l.refresher.Waiting() {
		return
	}
	var calls refresh.Calls
	for i := range b.tasks {
		if b.attempts[i].Cause == core.CauseRefresh {
			calls.Add(b.tasks[i].Took, b.tasks[i].Err == nil)
		}
	}
	if l.batches() {
		// Each object took what its call did.
		calls.Took = calls.Longest
	}
	l.refresher.NoteCalls(calls)
}
