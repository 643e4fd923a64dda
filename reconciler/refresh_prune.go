// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
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
	p := r.pruner
	p.Look(txn, r.set.pruning())
	if p.Gated() && !r.paused.whole {
		p.NoteAttempted(r.core.Index.Attempted(r.observer.Revision()))
	}
	if r.paused.whole || !p.Due(now) {
		p.StopDraining()
		return
	}
	stuck, _, _ := r.workers.NumStuck()
	if !p.Start(now, !r.workers.IsBusy(), stuck > 0) || ctx.Err() != nil || !r.cfg.prunes() {
		return
	}
	began := r.now()
	r.health.Begin(began)
	err := r.callPrune(ctx, txn)
	r.health.End()
	took := r.now() - began
	if listed, sweeping := p.NoteListed(took); sweeping {
		r.finishSweep(round)
	} else {
		r.pruned(round, &inspect.Prune{Took: took, Listed: listed}, err)
	}
}

// finishSweep gives the core the orphans of a sweep to delete, when the main cursor has read far
// enough.
func (r *runner[Obj]) finishSweep(round *inspect.Round) {
	found, ok := r.pruner.Finish(r.observer.Revision())
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
	failure := ""
	if err != nil {
		err = outcome.Keep(err, r.classes.ByFunction)
		record.Error = strings.Clone(outcome.TextOf(err))
		err = fmt.Errorf("prune: %w", err)
		failure = err.Error()
	}
	failures, after := r.pruner.NoteEnd(r.now(), failure, r.set.pruning())
	if err != nil {
		r.log.Warn("prune failed", "error", err, "failures", failures, "retryAfter", after)
	}
	r.metrics.PruneDuration(record.Took)
	r.metrics.PruneError(err)
}

func (r *runner[Obj]) callPrune(ctx context.Context, txn statedb.ReadTxn) (err error) {
	s := r.scope.Load()
	s.Set(execute.Calling[Obj]{Operation: "prune", Since: r.now()})
	defer s.Set(execute.Calling[Obj]{})
	defer r.execute.Recover("prune", &err)
	if r.cfg.Sweeper != nil {
		return r.pruner.List(ctx, txn, r.cfg.Sweeper.List)
	}
	return r.cfg.Pruner.Prune(ctx, txn, r.rows.Table.All(txn))
}

// refresh has rows applied again that are due for it.
func (r *runner[Obj]) refresh() {
	if !r.paused.whole {
		s := &r.set
		r.refresher.Step(refresh.Settings{Interval: s.RefreshInterval, Limiter: s.RefreshLimiter, RoundSize: s.RoundSize})
	}
}

// noteRefreshed reports the state of the loop at the end of a pass to the refresher.
func (r *runner[Obj]) noteRefreshed() {
	if !r.refresher.Waiting() {
		return
	}
	p := refresh.Pass{Seen: r.observer.Revision(), Refreshing: r.core.Index.Figures().Refreshing - r.stuckRefreshes()}
	p.CaughtUpFrom, p.CaughtUpTo = r.observer.CaughtUp()
	r.refresher.NotePass(p)
}

// stuckRefreshes returns how many refreshes are stuck on workers.
func (r *runner[Obj]) stuckRefreshes() (n int) {
	for j := range r.workers.StuckJobs {
		for i := range j.Ops {
			if j.Ops[i].Lane() == core.Refresh {
				n++
			}
		}
	}
	return n
}

// noteRefreshCalls reports the calls of refreshes to the refresher.
func (r *runner[Obj]) noteRefreshCalls() {
	if !r.refresher.Waiting() {
		return
	}
	for i := range r.ops {
		if op := &r.ops[i]; op.Cause == core.CauseRefresh {
			r.refresher.NoteCall(op.Took, op.Share, op.Err == nil)
		}
	}
}
