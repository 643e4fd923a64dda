// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/refresh"
)

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
	p.TipFrom, p.TipUpTo = l.observer.CaughtUp()
	l.refresher.Passed(p)
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
	l.refresher.Ran(calls)
}
