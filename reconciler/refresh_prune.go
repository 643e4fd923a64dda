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

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// pruning returns the settings of the pruner.
func (s *Settings) pruning() prune.Settings {
	return prune.Settings{Interval: s.PruneInterval, MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff}
}

// prune ends a sweep that waits for the main cursor, and begins the prune or sweep that is due. txn
// is the snapshot of the round that has just ended, so that it has every object whose operation has
// started.
func (r *runner[Obj]) prune(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn, now time.Duration) {
	r.finishSweep(round)
	p := r.shared.pruner
	p.Look(txn, r.set.pruning())
	if p.Gated() && !r.paused.whole {
		p.NoteAttempted(r.core.Index.Attempted(r.observer.Revision()))
	}
	if r.paused.whole || !p.Due(now) {
		p.StopDraining()
		return
	}
	stuck, _, _ := r.workers.NumStuck()
	if !p.Start(now, !r.workers.IsBusy(), stuck > 0) || ctx.Err() != nil || !r.shared.setup.cfg.prunes() {
		return
	}
	began := r.life.now()
	r.reports.health.Begin(began)
	err := callPrune(ctx, r.shared, txn)
	r.reports.health.End()
	took := r.life.now() - began
	if listed, sweeping := p.NoteListed(took); sweeping {
		r.finishSweep(round)
	} else {
		r.pruned(round, &inspect.Prune{Took: took, Listed: listed}, err)
	}
}

// finishSweep gives the core the orphans of a sweep to delete, when the main cursor has read far
// enough.
func (r *runner[Obj]) finishSweep(round *inspect.Round) {
	found, ok := r.shared.pruner.Finish(r.observer.Revision())
	if !ok {
		return
	}
	record := &inspect.Prune{Took: found.Took, Listed: found.Listed}
	for _, orphan := range found.Orphans {
		if r.core.AddOrphan(orphan, found.Revision) {
			record.Swept++
		}
	}
	r.pruned(round, record, found.Err)
}

// pruned records the end of a prune or a sweep.
func (r *runner[Obj]) pruned(round *inspect.Round, record *inspect.Prune, err error) {
	round.Prune = record
	if err != nil {
		err = outcome.Keep(err, r.reports.classes.ByFunction)
		record.Error = strings.Clone(outcome.TextOf(err))
		err = fmt.Errorf("prune: %w", err)
	}
	now := r.life.now()
	failures, after := r.shared.pruner.NoteEnd(now, err, r.set.pruning())
	message := "prune failed"
	if errors.Is(err, prune.ErrAwaits) {
		message = "sweep awaits approval"
	}
	if err != nil && r.reports.mayLogPrune(message, now) {
		r.shared.setup.log.Warn(message, "error", err, "failures", failures, "retryAfter", after)
	}
	r.reports.metrics.PruneDuration(record.Took)
	r.reports.metrics.PruneError(err)
}

// callPrune calls the prune or the list of a sweep.
func callPrune[Obj any](ctx context.Context, s *shared[Obj], txn statedb.ReadTxn) (err error) {
	scope, cfg := s.execution.scope.Load(), &s.setup.cfg
	scope.Set(execute.Calling[Obj]{Operation: "prune", Since: s.life.now()})
	defer scope.Set(execute.Calling[Obj]{})
	defer s.execution.config.Recover("prune", &err)
	if cfg.Sweeper != nil {
		return s.pruner.List(ctx, txn, cfg.Sweeper.List)
	}
	return cfg.Pruner.Prune(ctx, txn, s.rows.Table.All(txn))
}

// refresh has rows applied again that are due for it.
func (r *runner[Obj]) refresh() {
	if !r.paused.whole {
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
		if op := &ops[i]; op.Turn.Cause == core.CauseRefresh {
			r.NoteCall(op.Run.Took, op.Run.Share, op.Run.Err == nil)
		}
	}
}
