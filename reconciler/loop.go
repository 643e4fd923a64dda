// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime/trace"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/blocked"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Loop is a reconciler: it makes a target match a table for as long as it runs. Its exported
// methods are safe from any goroutine.
type Loop[Obj comparable] struct {
	// What only the goroutine of the loop may use is in runner. Parts that this goroutine shares with
	// others say which of their methods are for whom.

	cfg  Config[Obj]
	opts options
	log  *slog.Logger
	rows *rows.Rows[Obj]

	life
	settings settings
	// calls are what others ask the loop for, pausing has the keys that they paused, keyWaits
	// those that they wait for.
	calls    calls[Obj]
	pausing  pausing
	keyWaits *keywaits.Waits[Obj]
	progress progress.Progress[remainder[Obj]]
	// sharing has the loops that share the status field.
	sharing sharing[Obj]

	// execute is what operations are called with, scope that of those which the loop runs itself.
	execute execute.Config[Obj]
	scope   atomic.Pointer[execute.Scope[Obj]]

	workers   *workers[Obj]
	pruner    *prune.Pruner[Obj]
	refresher *refresh.Refresher[Obj]

	// stats has the figures, view tells them and what else there is to tell.
	journal *journal.Journal[Obj]
	stats   stats[Obj]
	view    *view[Obj]

	runner *runner[Obj]
}

// life is from when until when a loop runs.
type life struct {
	// started is the zero of the loop's clock; set before it runs.
	started time.Time
	running atomic.Bool
	// ended is closed when the loop has stopped, refresherStarted when the job of the refresher
	// has begun; nil if it has none.
	ended, refresherStarted chan struct{}
}

// now is the loop's clock: the time since it was started, which no change of the wall
// clock moves.
func (l *life) now() time.Duration { return time.Since(l.started) }

// timeOf returns what the wall clock shows at a time of the loop's.
func (l *life) timeOf(at time.Duration) time.Time { return l.started.Add(at) }

// stopped reports whether the loop has come to its end.
func (l *life) stopped() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// runner is the part of a loop that belongs to the goroutine of the loop, which makes one pass after
// the other through the stages: see [runner.pass]. A round is a pass that ran or started something.
// Only that goroutine, and before and after it the one that calls [Loop.Run], uses these fields.
type runner[Obj comparable] struct {
	*Loop[Obj]

	// set are the settings of this round, setFrom is where they were read.
	set     Settings
	setFrom *configuration

	core     *core.Core[Obj]
	observer *observe.Observer[Obj]
	executor *execute.Executor[Obj]
	ledger   *ledger.InRows[Obj]
	classes  *outcome.Classes[Obj]
	blocked  *blocked.Keys
	pause    pause[Obj]
	health   *health.Reporter
	metrics  metrics.Handle
	pace     pace.Pace
	alarm    pace.Alarm
	// rand spreads the rechecks of blocked objects.
	rand *rand.Rand

	// began is when this pass did, budget is what it may plan; batch is what was run in it, or finished
	// by workers before it. sequence counts the rounds.
	began    time.Duration
	budget   budget
	sequence uint64
	batch    batch[Obj]
	// doing says which of the program's functions is running. torn: the loop ended in the middle of a
	// pass, so that nobody knows which of its keys are unreconciled.
	doing doing
	torn  bool
}

// loop makes one pass after the other until ctx ends.
func (r *runner[Obj]) loop(ctx context.Context) {
	for reason := inspect.ReasonStart; ctx.Err() == nil; {
		if !r.pace.Admit(ctx, r.roundLimiter, r.calls.made, r.takeCalls, r.now) {
			break
		}
		more := r.pass(ctx, reason)
		select {
		case <-more:
			reason = inspect.ReasonMore
		default:
			from := r.now()
			reason = r.wait(ctx, more)
			r.pace.Idle(from, r.now())
		}
	}
}

// pass takes in what workers have finished, looks at the table and the clock, and runs a
// round if there is something to do. The returned channel is closed when there may be
// more to see; it is nil while there is no use in looking.
func (r *runner[Obj]) pass(ctx context.Context, reason inspect.Reason) <-chan struct{} {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "reconcile round").End()
	}
	round := inspect.Round{Reason: reason, Started: time.Now()}
	r.takeCalls()
	// What was released or asked for until now is due in this round.
	r.began = r.now()
	r.completeFinished(ctx, &round)

	txn := r.rows.DB.ReadTxn()
	r.begin(r.budgetAt(r.began))
	more := r.observe(&round, txn)
	plan := r.core.Plan()
	countPlan(&round, plan)
	if r.budget.workers {
		r.core.End(r.startPlan(ctx, &round, txn, plan))
	} else {
		r.core.End(r.runPlan(ctx, &round, txn, plan))
	}
	r.account(&round)
	r.publish()
	r.tellRefresher()

	r.prune(ctx, &round, txn, r.began)
	r.report(&round, txn)
	return r.moreToSee(more, round.Returned > 0 || len(plan) == r.budget.size && r.overdue(r.began))
}

// countPlan notes what is planned.
func countPlan[Obj any](round *inspect.Round, plan []core.Item[Obj]) {
	for i := range plan {
		if plan[i].Again {
			round.Waited++
		} else {
			round.Changes++
		}
	}
}

// begin begins a round with a budget.
func (r *runner[Obj]) begin(b budget) {
	r.budget = b
	r.core.SetGrouping(b.workers || r.execute.IsBatched())
	r.followUp(r.began)
	r.core.Begin(r.began, b.size, r.observer.MaxFresh())
}

// observe hands the core what has changed in the table, if the round looks at it. The returned
// channel is closed when there may be more; nil if it does not look.
func (r *runner[Obj]) observe(round *inspect.Round, txn statedb.ReadTxn) (more <-chan struct{}) {
	if r.budget.looks {
		more = r.observer.Observe(txn, r.began)
		round.Refreshes = r.observer.Refreshes()
	}
	return more
}

// moreToSee returns what the loop waits for after a round: see [runner.pass]. left: the round left
// behind what was due.
func (r *runner[Obj]) moreToSee(more <-chan struct{}, left bool) <-chan struct{} {
	switch next := r.budgetAt(r.now()); {
	case !next.looks, next.size == 0 && r.observer.Leftover():
		return nil
	case more == nil, next.size > 0 && left:
		return watch.Closed
	}
	return more
}

// overdue reports whether something was due at a time already.
func (r *runner[Obj]) overdue(at time.Duration) bool {
	due, ok := r.core.NextDue()
	return ok && due < at
}

// wait blocks until there is a reason for another pass or ctx ends. changed is closed when the table
// has changed; nil while there is no use in looking.
func (r *runner[Obj]) wait(ctx context.Context, changed <-chan struct{}) inspect.Reason {
	at, reason, ok := r.next(changed)
	var clock <-chan time.Time
	if ok {
		clock = r.alarm.Set(at, r.now())
	} else {
		r.alarm.Stop()
	}
	select {
	case <-ctx.Done():
		return ""
	case <-changed:
		return inspect.ReasonChange
	case <-clock:
		r.alarm.Rang()
		return reason
	case <-r.pruner.Initialized():
		return inspect.ReasonInitialized
	case <-r.calls.made:
		// Settings, pauses, questions, waits, and loops that share the status field.
		if r.takeCalls() {
			return inspect.ReasonPruneCall
		}
		return inspect.ReasonCall
	case <-r.workers.SomeFinished:
		return inspect.ReasonFinished
	case <-r.blocked.Released():
		r.release()
		return inspect.ReasonReleased
	}
}

// next returns what the clock has in store first, and when.
func (r *runner[Obj]) next(changed <-chan struct{}) (at time.Duration, reason inspect.Reason, ok bool) {
	now := r.now()
	b := r.budgetAt(now)
	due, has := r.core.NextDue()
	switch {
	case !b.looks, b.size == 0 && r.observer.Leftover():
		at, reason, ok = b.again, inspect.ReasonDue, b.again != never
	case changed == nil:
		// There was no use in looking a moment ago, and now there is.
		return now, inspect.ReasonMore, true
	case r.core.Count(core.Ready) > 0:
		// Another of its group has just been worked on: there is nothing to wait for but a
		// permit.
		at, reason, ok = max(b.again, now), inspect.ReasonMore, true
	case has:
		at, reason, ok = max(b.again, r.pace.DueAt(due, r.set.MinBackoff)), inspect.ReasonDue, true
	}
	if stuckAt, has := r.workers.NextStuck(); has && (!ok || stuckAt < at) {
		at, reason, ok = stuckAt, inspect.ReasonStuck, true
	}
	if pruneAt, has := r.pruner.Next(); has && !r.pause.whole && (!ok || pruneAt < at) {
		at, reason, ok = pruneAt, inspect.ReasonPrune, true
	}
	return at, reason, ok
}

// takeReleased takes in the channels that have closed.
func (r *runner[Obj]) takeReleased() {
	if !r.blocked.Any() {
		return
	}
	select {
	case <-r.blocked.Released():
		r.release()
	default:
	}
}

// release makes the keys due that waited for a channel which has closed.
func (r *runner[Obj]) release() {
	now := r.now()
	r.blocked.Release(func(key string) { r.core.Release(key, now) })
}
