// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/trace"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/blocked"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// runner is the part of a loop that belongs to the goroutine of the loop, which goes round through
// the stages: see [runner.pass]. Nothing else may use its fields.
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

	// began is when the round did, budget is that of the round; sequence counts the rounds that were
	// recorded. batch is what was run in the round, or finished by workers in it.
	began    time.Duration
	budget   budget
	sequence uint64
	batch    batch[Obj]
	// doing is what of the program's is being called. torn: the loop has ended in the middle of a
	// round, so that it is not known what of that is unreconciled.
	doing doing
	torn  bool
}

func newRunner[Obj comparable](l *Loop[Obj], classes *outcome.Classes[Obj]) *runner[Obj] {
	r := &runner[Obj]{
		Loop: l, classes: classes, set: l.opts.Settings, blocked: blocked.New(), rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		metrics: metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name),
		ledger:  ledger.New(l.rows, l.log, l.now),
	}
	r.pause.keys = map[string]struct{}{}
	r.health = r.newReporter()
	r.core = core.New(r.coreConfig())
	l.pruner = prune.New(prune.Config[Obj]{
		Rows: l.rows, Sweeps: l.cfg.Sweeper != nil, Budget: l.opts.budget, Tracks: r.core.TracksKeyOf,
	})
	r.observer = r.newObserver()
	l.keyWaits = keywaits.New(l.rows, r.debtOf)
	return r
}

// coreConfig returns what the core is made from.
func (r *runner[Obj]) coreConfig() core.Config[Obj] {
	cfg := core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return r.rows.Key(obj) }, GroupOf: r.cfg.SerialBy, SamePending: r.rows.SamePending, Limits: r.set.limits(), Seed: rand.Uint64(),
	}
	if r.opts.breaker != nil {
		b := r.opts.breaker.withDefaults()
		r.opts.breaker = &b
		cfg.Breaker = &core.BreakerConfig{
			Failures: b.Failures, Probes: b.Probes,
			MinInterval: b.MinInterval, MaxInterval: b.MaxInterval, ByClass: b.ByClass,
		}
	}
	return cfg
}

// run runs the loop until ctx ends, or a function of the program ends its goroutine.
func (r *runner[Obj]) run(ctx context.Context, health cell.Health) error {
	if err := r.observer.Start(); err != nil {
		return fmt.Errorf("reconciler %q: observing table %q: %w", called(r.ID()), r.rows.Table.Name(), err)
	}
	defer r.observer.Stop()
	defer r.blocked.Stop()
	defer r.alarm.Stop()
	defer r.health.Stop()
	r.health.Start(health)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, x := execute.New(ctx, &r.execute)
	r.scope.Store(x.Scope)
	x.Admit = r.admitOne
	r.executor = x
	r.reconfigure(r.now())
	if r.refreshing != nil {
		// Who sees a row Done sees the health of both jobs.
		select {
		case <-r.refreshing:
		case <-ctx.Done():
		}
	}
	// A program that sees the first row Done finds figures.
	r.metrics.ReconciliationErrors(0, 0)
	if returned(func() { r.loop(ctx); r.finish(ctx) }) {
		return nil
	}
	// The loop cannot go on: what has called runtime.Goexit may have left anything behind.
	cancel()
	return r.exited(ctx)
}

// returned calls f on a goroutine of its own, and reports whether it returned: it does not if
// it calls runtime.Goexit. A panic ends the program.
func returned(f func()) bool {
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() {
			if r := recover(); r != nil {
				panic(r)
			}
			ended <- returned
		}()
		f()
		returned = true
	}()
	return <-ended
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

// exited ends a loop whose goroutine was ended by a function of the program. The outcomes of
// what had been run in this round are written, and of what workers are running, as far as the
// functions that this takes do not end their goroutine as well.
func (r *runner[Obj]) exited(ctx context.Context) error {
	err := fmt.Errorf("reconciler %q has ended in %s: %w", called(r.ID()), r.exitedIn(), execute.ErrGoexit)
	r.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may be long.
	r.health.Ended(err)
	r.torn = r.doing != doingPrune
	if r.doing == doingBatch {
		r.torn = !returned(r.completeLast)
	}
	// What else there is of a round is completed, or cannot be.
	r.forgetBatch()
	returned(func() { r.finish(ctx) })
	r.workers.Stop()
	r.workers.Wait()
	return err
}

// exitedIn names the call that has ended the goroutine of the loop.
func (r *runner[Obj]) exitedIn() string {
	switch r.doing {
	case doingBatch:
		for i := range r.batch.tasks {
			if t := &r.batch.tasks[i]; t.Err == execute.ErrGoexit {
				return fmt.Sprintf("%s of %s", t.Operation(), r.rows.Name(t.Row))
			}
		}
	case doingPrune:
		return "prune"
	}
	return "a function of the program"
}

// completeLast completes the batch in which the loop has ended.
func (r *runner[Obj]) completeLast() {
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.complete(&round, &r.batch)
	r.account(&round)
	r.report(&round, r.rows.DB.ReadTxn())
}

// doing is what of the program's the goroutine of the loop is in.
type doing uint8

const (
	doingNothing doing = iota
	doingBatch
	doingPrune
)

// finish waits for the operations that are running, which have been told to end, and
// commits what came of them.
func (r *runner[Obj]) finish(ctx context.Context) {
	r.takeBackQueued()
	r.workers.Stop()
	r.workers.Wait()
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.began = r.now()
	r.completeFinished(ctx, &round)
	r.account(&round)
	r.publish()
	r.report(&round, r.rows.DB.ReadTxn())
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
	r.core.Begin(r.began, b.size, r.observer.Fresh())
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

// wait blocks until there is a reason for another pass or ctx ends.
func (r *runner[Obj]) wait(ctx context.Context, watch <-chan struct{}) inspect.Reason {
	for {
		at, reason, ok := r.next(watch)
		var clock <-chan time.Time
		if ok {
			clock = r.alarm.Set(at, r.now())
		} else {
			r.alarm.Stop()
		}
		select {
		case <-ctx.Done():
			return ""
		case <-watch:
			return inspect.ReasonChange
		case <-clock:
			r.alarm.Rang()
			return reason
		case <-r.pruner.Initialized():
			return inspect.ReasonInitialized
		case <-r.calls.made:
			if r.takeCalls() {
				return inspect.ReasonPruneCall
			}
			return inspect.ReasonCall
		case <-r.workers.Ready:
			return inspect.ReasonLanded
		case <-r.blocked.Released():
			r.release()
			return inspect.ReasonReleased
		}
	}
}

// next returns what the clock has in store first, and when.
func (r *runner[Obj]) next(watch <-chan struct{}) (at time.Duration, reason inspect.Reason, ok bool) {
	now := r.now()
	b := r.budgetAt(now)
	due, has := r.core.NextDue()
	switch {
	case !b.looks, b.size == 0 && r.observer.Leftover():
		at, reason, ok = b.again, inspect.ReasonDue, b.again != never
	case watch == nil:
		// There was no use in looking a moment ago, and now there is.
		return now, inspect.ReasonMore, true
	case r.core.Count(core.Ready) > 0:
		// Another of its group has just been worked on: there is nothing to wait for but a
		// permit.
		at, reason, ok = max(b.again, now), inspect.ReasonMore, true
	case has:
		at, reason, ok = max(b.again, r.pace.DueAt(due, r.set.MinBackoff)), inspect.ReasonDue, true
	}
	if stuck, has := r.workers.NextStuck(); has && (!ok || stuck < at) {
		at, reason, ok = stuck, inspect.ReasonStuck, true
	}
	if prune, has := r.pruner.Next(); has && !r.pause.whole && (!ok || prune < at) {
		at, reason, ok = prune, inspect.ReasonPrune, true
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
