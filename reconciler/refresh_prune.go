// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/refresh"
)

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
