// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/metrics"
)

// Loop is a reconciler: it makes a target match a table for as long as it runs. One
// goroutine goes round through the stages, a file each: observe, plan (package core),
// act, commit, report. Its exported methods are safe from any goroutine.
type Loop[Obj comparable] struct {
	cfg  Config[Obj]
	opts options
	log  *slog.Logger
	rows *rows.Rows[Obj]

	// started is the zero of the loop's clock; set before it runs.
	started time.Time
	running atomic.Bool

	progress progress.Progress[account[Obj]]
	journal  *journal[Obj]
	// sharing has the loops that share the status field.
	sharing sharing[Obj]
	// calls are what others ask the loop for, objectWaits the keys that they wait for.
	calls       calls[Obj]
	objectWaits objectWaits[Obj]
	// ended is closed when the loop has stopped, refreshing when the job of the refresher
	// has begun; nil if it has none.
	ended, refreshing chan struct{}
	// book has the figures; scope is that of the operations that the loop runs itself.
	book  book[Obj]
	scope atomic.Pointer[scope[Obj]]
	// pausing has the keys that are paused, by calls.
	pausing pausing
	// refreshCalled wakes the refresher for a call, refreshGate tells it how far the loop is.
	refreshCalled signal
	refreshCall   refreshCall[Obj]
	refreshGate   refreshGate

	// settings are what [Loop.Reconfigure] set last, one call at a time.
	settings      atomic.Pointer[configuration]
	reconfiguring sync.Mutex

	// The rest belongs to the goroutine of the loop.

	// set are the settings of this round, setFrom is where they were read.
	set      Settings
	setFrom  *configuration
	core     *core.Core[Obj]
	executor executor[Obj]
	pool     *pool[Obj]
	// rand spreads the rechecks of blocked objects.
	rand      *rand.Rand
	metrics   metrics.Handle
	observer  observer[Obj]
	pruner    pruner[Obj]
	pause     pause[Obj]
	blocked   *blocked
	pace      pace.Pace
	alarm     alarm
	reporter  reporter
	watchdog  watchdog
	contended bool
	sequence  uint64
	// batch is what was run in this round, or landed in it; items are those of what landed.
	batch   batch[Obj]
	items   []core.Item[Obj]
	landed  []*flight[Obj]
	flights []*flight[Obj]
	// began is when the round did, doing what of the program's is being called. complaints are the failures of a round that are to be
	// logged, mayComplain bounds them.
	began       time.Duration
	doing       doing
	complaints  []complaint[Obj]
	mayComplain *rate.Limiter
	// pooled: operations run in the pool, or did until it is empty.
	pooled bool
	// torn: the loop has ended in the middle of a round, so that it is not known what of that
	// is owed.
	torn bool
}

var _ Reconciler[int] = (*Loop[int])(nil)

// New returns a reconciler that does nothing until [Loop.Run] is called, for programs
// and tests without a hive. The error names every setting that is wrong.
func New[Obj comparable](cfg Config[Obj]) (*Loop[Obj], error) {
	opts, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", cfg.id(&opts).called(), err)
	}
	l := &Loop[Obj]{
		cfg:     cfg,
		opts:    opts,
		log:     cfg.Log.With("reconciler", cfg.id(&opts).called()),
		rows:    rows.New(cfg.DB, cfg.Table, rows.Functions[Obj]{Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge}),
		set:     opts.Settings,
		ended:   make(chan struct{}),
		metrics: metrics.Bind(opts.metrics, cfg.ModuleID, opts.name),
		blocked: newBlocked(),
	}
	l.calls.made, l.refreshCalled = newSignal(), newSignal()
	l.pause.keys = map[string]struct{}{}
	l.mayComplain = rate.NewLimiter(1, complaintsBurst)
	l.settings.Store(newConfiguration(opts.Settings))
	l.core = core.New(l.coreConfig())
	l.journal = newJournal[Obj](opts.journalRounds, opts.journalOperations,
		l.rows.Key)
	l.pool = newPool(l.now, l.newWorker)
	l.rand = rand.New(rand.NewPCG(rand.Uint64(), 0))
	return l, nil
}

func (l *Loop[Obj]) coreConfig() core.Config[Obj] {
	cfg := core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return l.rows.Key(obj) }, GroupOf: l.cfg.SerialBy, Same: l.rows.SamePending, Limits: l.set.limits(), Seed: rand.Uint64(),
	}
	if l.opts.breaker != nil {
		b := l.opts.breaker.withDefaults()
		l.opts.breaker = &b
		cfg.Breaker = &core.BreakerConfig{
			Failures: b.Failures, Probes: b.Probes,
			MinInterval: b.MinInterval, MaxInterval: b.MaxInterval, ByClass: b.ByClass,
		}
	}
	return cfg
}

// newWorker returns what a goroutine runs operations with, and the context for them.
func (l *Loop[Obj]) newWorker(ctx context.Context) (context.Context, executor[Obj]) {
	s := &scope[Obj]{loop: l}
	g := guard{
		log: l.log, timeout: func() time.Duration { return l.settings.Load().Timeout },
		metrics: metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name), now: l.now, panics: l.cfg.PanicPropagation,
		tally: &l.book.tally, hook: l.opts.hook, class: l.errorClass,
	}
	ctx = context.WithValue(ctx, running.Key{}, s)
	if l.batches() {
		return ctx, &batched[Obj]{
			guard: g, clone: l.clone, scope: s, info: l.operationInfo, batches: l.cfg.BatchOperations, rounds: l.cfg.RoundOperations,
		}
	}
	return ctx, &inline[Obj]{guard: g, clone: l.clone, scope: s, info: l.operationInfo, ops: l.cfg.Operations, admit: always, turn: pace.Turn}
}

func always() bool { return true }

// batches reports whether operations come in batches.
func (l *Loop[Obj]) batches() bool {
	return l.cfg.BatchOperations != nil || l.cfg.RoundOperations != nil
}

// WaitUntilReconciled implements [Reconciler]. In an operation of this reconciler the error is
// [ErrInOperation], at once.
func (l *Loop[Obj]) WaitUntilReconciled(ctx context.Context, untilRevision statedb.Revision) (revision, retryLowWatermark statedb.Revision, err error) {
	if err := l.mayWait(ctx); err != nil {
		revision, retryLowWatermark = l.progress.Now()
		return revision, retryLowWatermark, err
	}
	return l.progress.Await(ctx, untilRevision, l.rows.Revision)
}

// scoped returns a job's name with the reconciler's name appended, if it has one.
func (l *Loop[Obj]) scoped(job string) string {
	if l.opts.name == "" {
		return job
	}
	return job + "-" + l.opts.name
}

// now is the loop's clock: the time since it was started, which no change of the wall
// clock moves.
func (l *Loop[Obj]) now() time.Duration { return time.Since(l.started) }

// Run reconciles until ctx ends, and refreshes if that is on. It returns nil then,
// after the outcomes of finished operations are committed and all its goroutines have
// ended. An error means that it could not start, or that an operation which it called
// itself, in line or as a prune, called runtime.Goexit: the error names it. The DB has to
// be started, or it never frees deleted objects. Call it once, and
// not if the loop was made by [RegisterConfig].
func (l *Loop[Obj]) Run(ctx context.Context) error {
	if l.running.Load() {
		return l.runAlready()
	}
	health := l.cfg.Health
	if health == nil {
		health = noHealth{}
	}
	return l.reconcileAndRefresh(ctx, health.NewScope(l.scoped("reconcile")), health.NewScope(l.scoped("refresh")))
}

func (l *Loop[Obj]) runAlready() error {
	return fmt.Errorf("reconciler %q has been run already", l.ID().called())
}

// reconcileAndRefresh runs the loop and the refresher, each with a health of its own.
func (l *Loop[Obj]) reconcileAndRefresh(ctx context.Context, health, refreshHealth cell.Health) error {
	ctx, cancel := context.WithCancel(ctx)
	refreshed := make(chan error, 1)
	go func() { refreshed <- l.refresh(ctx, refreshHealth) }()
	err := l.reconcile(ctx, health)
	cancel()
	return errors.Join(err, <-refreshed)
}

// reconcile is the job that runs the loop.
func (l *Loop[Obj]) reconcile(ctx context.Context, health cell.Health) error {
	if l.running.Swap(true) {
		return l.runAlready()
	}
	defer close(l.ended)
	l.started = time.Now()
	defer l.endSharing()
	defer metrics.Attach(l.opts.metrics, l.cfg.ModuleID, l.opts.name, l)()
	if l.opts.registry != nil {
		l.opts.registry.Add(l)
		defer l.opts.registry.Remove(l)
	}
	if err := l.observer.start(l.rows.DB, l.rows.Table); err != nil {
		return fmt.Errorf("reconciler %q: observing table %q: %w", l.ID().called(), l.rows.Table.Name(), err)
	}
	defer l.observer.stop()
	defer l.blocked.stop()
	defer l.alarm.stop()
	defer l.watchdog.stop()
	l.reporter.health = health
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, x := l.newWorker(ctx)
	l.scope.Store(ctx.Value(running.Key{}).(*scope[Obj]))
	if single, ok := x.(*inline[Obj]); ok {
		single.admit = l.admitOne
	}
	l.executor = x
	l.reconfigure(l.now())
	if l.refreshing != nil {
		// Who sees a row Done sees the health of both jobs.
		select {
		case <-l.refreshing:
		case <-ctx.Done():
		}
	}
	// A program that sees the first row Done finds figures.
	l.metrics.ReconciliationErrors(0, 0)
	if returned(func() { l.loop(ctx); l.finish(ctx) }) {
		return nil
	}
	// The loop cannot go on: what has called runtime.Goexit may have left anything behind.
	cancel()
	return l.exited(ctx)
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
func (l *Loop[Obj]) loop(ctx context.Context) {
	for reason := ReasonStart; ctx.Err() == nil; {
		if !l.pace.Admit(ctx, l.roundLimiter, l.calls.made, l.poll, l.now) {
			break
		}
		watch := l.pass(ctx, reason)
		select {
		case <-watch:
			reason = ReasonMore
		default:
			from := l.now()
			reason = l.wait(ctx, watch)
			l.pace.Idle(from, l.now())
		}
	}
}

// exited ends a loop whose goroutine was ended by a function of the program. The outcomes of
// what had been run in this round are written, and of what workers are running, as far as the
// functions that this takes do not end their goroutine as well.
func (l *Loop[Obj]) exited(ctx context.Context) error {
	err := fmt.Errorf("reconciler %q has ended in %s: %w", l.ID().called(), l.exitedIn(), errGoexit)
	l.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may be long.
	l.reporter.ended(err)
	l.torn = l.doing != doingPrune
	if l.doing == doingBatch {
		l.torn = !returned(l.completeLast)
	}
	// What else there is of a round is completed, or cannot be.
	l.recycle()
	returned(func() { l.finish(ctx) })
	l.pool.stop()
	l.pool.wg.Wait()
	return err
}

// exitedIn names the call that has ended the goroutine of the loop.
func (l *Loop[Obj]) exitedIn() string {
	switch l.doing {
	case doingBatch:
		for i := range l.batch.tasks {
			if t := &l.batch.tasks[i]; t.err == errGoexit {
				return fmt.Sprintf("%s of %s", t.operation(), l.rows.Name(l.batch.attempts[i].row))
			}
		}
	case doingPrune:
		return "prune"
	}
	return "a function of the program"
}

// completeLast completes the batch in which the loop has ended.
func (l *Loop[Obj]) completeLast() {
	r := Round{Reason: ReasonStop, Started: time.Now()}
	l.complete(&r, &l.batch)
	l.account(&r)
	l.count()
	l.report(&r, l.rows.DB.ReadTxn(), l.began)
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
func (l *Loop[Obj]) finish(ctx context.Context) {
	l.recall()
	l.pool.stop()
	l.pool.wg.Wait()
	r := Round{Reason: ReasonStop, Started: time.Now()}
	began := l.now()
	l.began = began
	l.land(ctx, &r)
	l.account(&r)
	l.count()
	l.publish()
	l.report(&r, l.rows.DB.ReadTxn(), began)
}

// pass takes in what workers have finished, looks at the table and the clock, and runs a
// round if there is something to do. The returned channel is closed when there may be
// more to see; it is nil while there is no use in looking.
func (l *Loop[Obj]) pass(ctx context.Context, reason Reason) <-chan struct{} {
	r := Round{Reason: reason, Started: time.Now()}
	l.poll()
	// What was released or asked for until now is due in this round.
	began := l.now()
	l.began = began
	l.land(ctx, &r)
	txn := l.rows.DB.ReadTxn()
	size, _, looks := l.capacity(began)

	l.core.Begin(began, size, l.followUp(began))
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "reconcile round").End()
	}
	var watch <-chan struct{}
	if looks {
		watch = l.observe(txn)
	}
	plan := l.core.Plan()
	r.Refreshes = l.observer.refreshes
	ran := l.act(ctx, &r, txn, plan)
	l.core.End(ran)
	l.account(&r)
	l.count()
	l.publish()
	l.tellRefresher()

	l.finishSweep(&r)
	if !l.pruneDue(txn, began) {
		l.pruner.callOff()
	} else if l.drained(began) {
		l.prune(ctx, &r, txn)
	}
	full := len(plan) == size
	l.report(&r, txn, began)
	size, _, looks = l.capacity(l.now())
	switch {
	case !looks, size == 0 && l.observer.hand.first() != nil:
		return nil
	case watch == nil, size > 0 && (r.Returned > 0 || full && l.overdue(began)):
		return closedWatch
	}
	return watch
}

// overdue reports whether something was due at a time already.
func (l *Loop[Obj]) overdue(at time.Duration) bool {
	due, ok := l.core.NextDue()
	return ok && due < at
}
