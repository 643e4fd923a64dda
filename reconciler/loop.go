// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"math/rand/v2"
	"runtime/trace"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/blocked"
	"github.com/statekeel/statekeel/internal/breaker"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/fights"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/needs"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Loop is a reconciler: it makes a target match a table while it runs. Make one with [New] or
// [RegisterConfig]. It implements [Reconciler] and [inspect.Controller]. Its exported methods are
// safe from any goroutine.
type Loop[Obj any] struct {
	member
	shared[Obj]
	view   *view[Obj]
	runner *runner[Obj]
}

// shared is what the goroutine of a loop and all others use. The types of the fields document which of their
// methods are for which goroutine.
type shared[Obj any] struct {
	setup    setup[Obj]
	life     life
	settings settings

	rows *rows.Rows[Obj]
	// ledger is where outcomes are written.
	ledger ledger.Ledger[Obj]
	// calls are the requests of others to the loop. keyWaits has the keys that they wait for, progress the
	// revisions.
	calls    calls[Obj]
	keyWaits *keywaits.Waits[Obj]
	progress progress.Progress[remainder[Obj]]
	// needs has what others need of the objects, and what these need.
	needs *needs.Needs[Obj]

	execution execution[Obj]
	refresher *refresh.Refresher[Obj]
	// stats has the history, the counters and the latest state.
	stats stats[Obj]
}

// execution is what runs operations.
type execution[Obj any] struct {
	// config is the configuration of all executors, scope the scope of the operations that the loop runs
	// itself; nil before it runs.
	config  execute.Config[Obj]
	scope   atomic.Pointer[execute.Scope[Obj]]
	workers *execute.Pool[Obj]
}

// life is the time from the start of a loop to its end.
type life struct {
	// started is the zero of the loop's clock; set before running, and claimed before both, by the one
	// call that runs the loop.
	started          time.Time
	claimed, running atomic.Bool
	// complete is the revision of the table at the first call of Ready since it was initialised.
	complete atomic.Pointer[statedb.Revision]
	// tookOver is closed when the first prune or resync is over, and what it has found was attempted; ended when the loop has
	// stopped.
	tookOver, ended chan struct{}
}

// now returns the time of the loop's clock: the time since it was started, which changes of the wall
// clock do not affect.
func (l *life) now() time.Duration { return time.Since(l.started) }

// timeOf converts a time of the loop's clock to wall-clock time.
func (l *life) timeOf(at time.Duration) time.Time { return l.started.Add(at) }

// stopped reports whether the loop has ended.
func (l *life) stopped() bool { return watch.IsClosed(l.ended) }

// runner is the part of a loop that belongs to the goroutine of the loop, which makes one pass after the
// other through the stages: see [runner.pass]. A round is a pass that ran or started something. Only
// that goroutine uses these fields, and before its start and after its end the caller of [Loop.Run].
type runner[Obj any] struct {
	shared  *shared[Obj]
	life    *life
	workers *execute.Pool[Obj]

	// set are the settings of this round, paused is the pause that the loop has applied.
	set    *Settings
	paused *pause[Obj]

	core     *core.Core[Obj]
	observer *observe.Observer[Obj]
	executor *execute.Executor[Obj]
	// blocked has the keys that wait for channels. rand spreads what is due together otherwise.
	blocked *blocked.Keys
	rand    *rand.Rand
	resync  *resync.Resync[Obj]
	fights  *fights.Fights[Obj]
	reports reports[Obj]
	breaker breaker.Breaker
	pace    pace.Pace
	alarm   pace.Alarm
	// lastResync is the record of the last resync; nil if there was none.
	lastResync *inspect.Resync
	// left.none: the target has nothing that an earlier run has left. What it has is found by the first look, which has
	// ended at the revision left.upTo; 0 if no prune or resync is over.
	left struct {
		upTo statedb.Revision
		none bool
	}

	this thisPass
	// ops are the operations that were run in this pass, or finished by workers before it.
	ops []core.Operation[Obj]
}

// thisPass is the state of a pass.
type thisPass struct {
	// began is the start of the pass, budget what it may run.
	began  time.Duration
	budget budget
	// left: the last pass that read the table could not begin everything.
	left bool
}

// loop makes one pass after the other until ctx ends.
func (r *runner[Obj]) loop(ctx context.Context) {
	for reason := inspect.ReasonStart; ctx.Err() == nil; {
		if !r.pace.Admit(ctx, r.shared.settings.roundLimiter, r.shared.calls.made, func() bool { return r.poll(ctx) }, r.life.now) {
			break
		}
		next := r.plan(r.pass(ctx, reason))
		if next.now {
			reason = inspect.ReasonMore
			continue
		}
		from := r.life.now()
		reason = r.wait(ctx, &next)
		r.pace.Idle(from, r.life.now())
	}
}

// poll answers calls between two passes: the limiter of rounds may allow no pass for long.
func (r *runner[Obj]) poll(ctx context.Context) (prune bool) {
	prune = r.takeCalls(ctx)
	r.checkWaits()
	return prune
}

// pass completes what workers have finished, reads changes of the table and what is due, and runs a
// round if there is something to do. The returned channel is closed when there may be more to read; it is nil if the
// budget did not allow reading.
func (r *runner[Obj]) pass(ctx context.Context, reason inspect.Reason) <-chan struct{} {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "reconcile round").End()
	}
	round := inspect.Round{Reason: reason, Started: time.Now()}
	r.takeCalls(ctx)
	// Everything released or requested before this time is due in this round.
	r.this.began = r.life.now()
	r.completeFinished(ctx, &round)
	r.refresh()

	txn := r.shared.rows.DB.ReadTxn()
	r.shared.ledger.Begin(r.this.began, r.shared.rows.Table.Revision(txn))
	r.begin(r.budgetAt(r.this.began))
	more := r.work(ctx, &round, txn)
	r.writeOutcomes(&round)
	r.account(&round)
	r.endWaits()

	r.look(ctx, &round, txn)
	r.endTakeover()
	r.report(&round)
	return more
}

// begin begins a round with a budget.
func (r *runner[Obj]) begin(b budget) {
	r.this.budget = b
	r.core.SetGrouping(b.workers || r.shared.execution.config.IsBatched())
	r.observer.UpdateCatchUp(r.this.began, r.set.target(b.workers))
	r.core.Begin(r.this.began, b.size, b.workers || r.observer.CatchingUp())
}

// work runs or starts operations, as many as the budget allows. The returned channel is that of [runner.pass].
func (r *runner[Obj]) work(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn) (more <-chan struct{}) {
	if !r.this.budget.reads {
		return nil
	}
	r.observer.Begin(txn)
	switch {
	case r.this.budget.workers:
		r.startOperations(ctx, round, txn)
	case r.shared.execution.config.IsBatched():
		r.runBatch(ctx, round, txn)
		r.endRun(ctx, round)
	default:
		r.runTurn(ctx, round, txn)
		r.endRun(ctx, round)
	}
	r.this.left = r.core.HasWork() || r.observer.HasWork()
	more = r.observer.End(r.this.began)
	return more
}

// nextPass is what begins the next pass, besides events that come at any time.
type nextPass struct {
	// now: it begins at once, and the fields below are not set.
	now bool
	// changed is closed when the table has changed; it is nil while the budget does not allow reading the table.
	changed <-chan struct{}
	// timed: it begins at the time at, for a reason.
	timed  bool
	at     time.Duration
	reason inspect.Reason
}

// by makes a pass begin at a time at the latest, for a reason, if has is set.
func (n *nextPass) by(at time.Duration, reason inspect.Reason, has bool) {
	if has && (!n.timed || at < n.at) {
		n.timed, n.at, n.reason = true, at, reason
	}
}

// plan returns what begins the next pass. more is what the last one has returned.
func (r *runner[Obj]) plan(more <-chan struct{}) (n nextPass) {
	now := r.life.now()
	b := r.budgetAt(now)
	due, has := r.core.NextDue()
	switch {
	case !b.reads, b.size == 0 && r.this.left:
		n.by(b.again, inspect.ReasonDue, b.again != never)
	case more == nil, b.size > 0 && r.this.left, watch.IsClosed(more):
		return nextPass{now: true}
	case r.core.Index.Figures().States[core.Ready] > 0:
		// It was not ready when the pass took its operations: its group was freed at the end, or it is an orphan of the
		// resync that has just been judged. It may have to wait for a permit.
		n.changed = more
		n.by(max(b.again, now), inspect.ReasonMore, true)
	default:
		n.changed = more
		n.by(max(b.again, r.pace.DueAt(due, r.set.MinBackoff)), inspect.ReasonDue, has)
	}
	recordAt, has := r.shared.ledger.Next()
	n.by(recordAt, inspect.ReasonDue, has)
	stuckAt, has := r.workers.NextStuck(now)
	n.by(stuckAt, inspect.ReasonStuck, has)
	at, has := r.resync.Next(now, r.paused.whole)
	n.by(at, inspect.ReasonPrune, has)
	refreshAt, has := r.nextRefresh(now)
	n.by(refreshAt, inspect.ReasonDue, has)
	return n
}

// wait blocks until there is a reason for another pass or ctx ends.
func (r *runner[Obj]) wait(ctx context.Context, next *nextPass) inspect.Reason {
	var clock <-chan time.Time
	if next.timed {
		clock = r.alarm.Set(next.at, r.life.now())
	} else {
		r.alarm.Stop()
	}
	select {
	case <-ctx.Done():
		return ""
	case <-next.changed:
		return inspect.ReasonChange
	case <-clock:
		r.alarm.Rang()
		return next.reason
	case <-r.resync.Initialized():
		return inspect.ReasonInitialized
	case <-r.shared.calls.made:
		// Settings, pauses, questions and waits.
		if r.poll(ctx) {
			return inspect.ReasonPruneCall
		}
		return inspect.ReasonCall
	case <-r.resync.Ended:
		return inspect.ReasonListed
	case <-r.workers.SomeFinished:
		return inspect.ReasonFinished
	case <-r.blocked.Released():
		r.release()
		return inspect.ReasonReleased
	}
}
