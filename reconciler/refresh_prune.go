// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// pruning returns the settings of the pruner.
func (r *runner[Obj]) pruning() prune.Settings {
	s := r.set
	set := prune.Settings{Interval: s.PruneInterval, MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff}
	if r.shared.setup.cfg.Lister != nil {
		// Programs that were started together do not list together.
		set.Interval, set.Once = backoff.Exponential{Jitter: s.Jitter, Rand: r.blocking.rand}.Spread(s.ResyncInterval), true
	}
	return set
}

// prune ends a listing of the target, and begins the prune or resync that is due. txn is the snapshot of the
// round that has just ended, so that it has every object whose operation has started.
func (r *runner[Obj]) prune(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn, now time.Duration) {
	p := r.shared.pruner
	p.Look(txn, r.pruning())
	if p.Gated() && !r.paused.whole {
		p.NoteAttempted(r.core.Index.Attempted(r.observer.Revision()))
	}
	r.takeListing(round)
	if !r.mayPrune() || !p.Due(now, r.resync.Waiting()) {
		p.StopDraining()
		return
	}
	cfg := &r.shared.setup.cfg
	stuck, _, _ := r.workers.NumStuck()
	if ctx.Err() != nil || !p.Start(now, cfg.Lister != nil || !r.workers.IsBusy(), stuck > 0) {
		return
	}
	switch {
	case cfg.Lister != nil:
		// It has a scope of its own: it is not in an operation that runs beside it.
		lists, _ := execute.New(ctx, &r.shared.execution.config)
		r.resync.Start(lists, txn)
	case cfg.Pruner != nil:
		began := r.life.now()
		r.reports.health.Begin(began)
		err := callPrune(ctx, r.shared, txn)
		r.reports.health.End()
		took := r.life.now() - began
		round.Prune = &inspect.Prune{Took: took, Error: r.pruned(took, err)}
	default:
		p.NoteEnd(now, nil, r.pruning())
	}
}

// mayPrune reports whether a pause allows a prune. The first listing of a loop that adopts changes nothing.
func (r *runner[Obj]) mayPrune() bool { return !r.paused.whole || r.resync.Waiting() }

// pruned records the end of a prune or a resync that took some time. It returns the text of the error.
func (r *runner[Obj]) pruned(took time.Duration, err error) (failure string) {
	message, what := "prune failed", "prune"
	if r.shared.setup.cfg.Lister != nil {
		message, what = "resync failed", "resync"
	}
	if err != nil {
		err = outcome.Keep(err, r.reports.classes.ByFunction)
		failure = strings.Clone(outcome.TextOf(err))
		err = fmt.Errorf("%s: %w", what, err)
	}
	now := r.life.now()
	failures, after := r.shared.pruner.NoteEnd(now, err, r.pruning())
	switch {
	case errors.Is(err, resync.ErrAwaits):
		message = "resync awaits approval"
	case errors.Is(err, resync.ErrLeftAlone):
		message = "some listed objects are left alone"
	}
	if err != nil && r.reports.mayLogPrune(message, now) {
		r.shared.setup.log.Warn(message, "error", err, "failures", failures, "retryAfter", after)
	}
	r.reports.metrics.PruneDuration(took)
	r.reports.metrics.PruneError(err)
	return failure
}

// callPrune calls the prune.
func callPrune[Obj any](ctx context.Context, s *shared[Obj], txn statedb.ReadTxn) (err error) {
	scope := s.execution.scope.Load()
	scope.Set(execute.Calling[Obj]{Operation: "prune", Since: s.life.now()})
	defer scope.Set(execute.Calling[Obj]{})
	defer s.execution.config.Recover("prune", &err)
	return s.setup.cfg.Pruner.Prune(ctx, txn, s.rows.Table.All(txn))
}

// refresh has rows applied again that are due for it, or that a resync found missing or different.
func (r *runner[Obj]) refresh() {
	if !r.paused.whole {
		if !r.shared.refresher.Repairing() {
			r.resync.EndRepairs()
		}
		s := r.set
		r.shared.refresher.Step(refresh.Settings{Interval: s.RefreshInterval, Limiter: s.RefreshLimiter, RoundSize: s.RoundSize})
	}
}

// noteRefreshed reports the state of the loop at the end of a pass to the refresher.
func (r *runner[Obj]) noteRefreshed() {
	if !r.shared.refresher.Waiting() {
		return
	}
	p := refresh.Pass{Seen: r.observer.Revision(), Refreshing: r.core.Index.Figures().Refreshing - stuckRefreshes(r.workers)}
	p.CaughtUpFrom, p.CaughtUpTo = r.observer.CaughtUp()
	r.shared.refresher.NotePass(p)
}

// stuckRefreshes returns how many refreshes are stuck on workers.
func stuckRefreshes[Obj any](workers *execute.Pool[Obj]) (n int) {
	for j := range workers.StuckJobs {
		for i := range j.Ops {
			if j.Ops[i].Lane() == core.Refresh {
				n++
			}
		}
	}
	return n
}

// noteRefreshCalls reports the calls of refreshes to the refresher.
func noteRefreshCalls[Obj any](r *refresh.Refresher[Obj], ops []core.Operation[Obj]) {
	if !r.Waiting() {
		return
	}
	for i := range ops {
		if op := &ops[i]; op.Turn.Cause == core.CauseRefresh || op.Turn.Cause == core.CauseRepair {
			r.NoteCall(op.Run.Took, op.Run.Share, op.Run.Err == nil)
		}
	}
}
