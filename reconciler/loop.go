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
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
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
	journal  *journal.Journal[Obj]
	view     *view[Obj]
	// sharing has the loops that share the status field.
	sharing sharing[Obj]
	// calls are what others ask the loop for, keyWaits the keys that they wait for.
	calls    calls[Obj]
	keyWaits *keywaits.Waits[Obj]
	// ended is closed when the loop has stopped, refreshing when the job of the refresher
	// has begun; nil if it has none.
	ended, refreshing chan struct{}
	classes           outcome.Classes[Obj]
	calling           execute.Config[Obj]
	// book has the figures; scope is that of the operations that the loop runs itself.
	book  book[Obj]
	scope atomic.Pointer[execute.Scope[Obj]]
	// pausing has the keys that are paused, by calls.
	pausing   pausing
	refresher *refresh.Refresher[Obj]

	// settings are what [Loop.Reconfigure] set last, one call at a time.
	settings      atomic.Pointer[configuration]
	reconfiguring sync.Mutex

	// The rest belongs to the goroutine of the loop.

	// set are the settings of this round, setFrom is where they were read.
	set      Settings
	setFrom  *configuration
	core     *core.Core[Obj]
	executor *execute.Executor[Obj]
	ledger   *ledger.InRows[Obj]
	pool     *pool[Obj]
	// rand spreads the rechecks of blocked objects.
	rand     *rand.Rand
	metrics  metrics.Handle
	observer *observe.Observer[Obj]
	pruner   *prune.Pruner[Obj]
	pause    pause[Obj]
	blocked  *blocked.Keys
	pace     pace.Pace
	alarm    pace.Alarm
	reporter *health.Reporter
	sequence uint64
	// batch is what was run in this round, or landed in it; items are those of what landed.
	batch    batch[Obj]
	items    []core.Item[Obj]
	finished []*workerJob[Obj]
	jobs     []*workerJob[Obj]
	// began is when the round did, doing what of the program's is being called.
	began time.Duration
	doing doing
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
		return nil, fmt.Errorf("reconciler %q: %w", called(cfg.id(&opts)), err)
	}
	l := &Loop[Obj]{
		cfg:     cfg,
		opts:    opts,
		log:     cfg.Log.With("reconciler", called(cfg.id(&opts))),
		rows:    rows.New(cfg.DB, cfg.Table, rows.Functions[Obj]{Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge}),
		set:     opts.Settings,
		ended:   make(chan struct{}),
		metrics: metrics.Bind(opts.metrics, cfg.ModuleID, opts.name),
		blocked: blocked.New(),
	}
	l.calls.made = signal.New()
	l.pause.keys = map[string]struct{}{}
	l.settings.Store(newConfiguration(opts.Settings))
	l.refresher = l.newRefresher()
	l.core = core.New(l.coreConfig())
	l.pruner = prune.New(prune.Config[Obj]{
		Rows: l.rows, Sweeps: cfg.Sweeper != nil, Budget: opts.budget, Tracks: l.core.TracksKeyOf,
	})
	l.observer = l.newObserver()
	l.keyWaits = keywaits.New(l.rows, l.unreconciledOf)
	l.journal = journal.New(opts.journalRounds, opts.journalOperations, l.rows.Name)
	l.classes = outcome.Classes[Obj]{Function: cfg.ErrorClass, Panics: cfg.PanicPropagation, Rows: l.rows, Log: l.log}
	l.calling = l.executeConfig()
	l.ledger = ledger.New(l.rows, l.log, l.now)
	l.pool = execute.NewPool[Obj, load[Obj]](l.now, l.newWorker)
	l.reporter = l.newReporter()
	l.rand = rand.New(rand.NewPCG(rand.Uint64(), 0))
	l.view = newView(l)
	return l, nil
}

func (l *Loop[Obj]) coreConfig() core.Config[Obj] {
	cfg := core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return l.rows.Key(obj) }, GroupOf: l.cfg.SerialBy, SamePending: l.rows.SamePending, Limits: l.set.limits(), Seed: rand.Uint64(),
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

// executeConfig returns what calls operations, for the loop and its workers.
func (l *Loop[Obj]) executeConfig() execute.Config[Obj] {
	return execute.Config[Obj]{
		Rows: l.rows, Single: l.cfg.Operations, Batches: l.cfg.BatchOperations, Rounds: l.cfg.RoundOperations,
		Now: l.now, Timeout: func() time.Duration { return l.settings.Load().Timeout },
		Metrics: func() metrics.Handle { return metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name) },
		Log:     l.log, Hook: l.opts.hookCall(l.ID()), Class: l.classes.ByFunction, PanicPropagation: l.cfg.PanicPropagation,
	}
}

func (l *Loop[Obj]) newWorker(ctx context.Context) (context.Context, *execute.Executor[Obj]) {
	return execute.New(ctx, &l.calling)
}

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
	return fmt.Errorf("reconciler %q has been run already", called(l.ID()))
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
	if err := l.observer.Start(); err != nil {
		return fmt.Errorf("reconciler %q: observing table %q: %w", called(l.ID()), l.rows.Table.Name(), err)
	}
	defer l.observer.Stop()
	defer l.blocked.Stop()
	defer l.alarm.Stop()
	defer l.reporter.Stop()
	l.reporter.Start(health)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, x := l.newWorker(ctx)
	l.scope.Store(x.Scope)
	x.Admit = l.admitOne
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
	for reason := inspect.ReasonStart; ctx.Err() == nil; {
		if !l.pace.Admit(ctx, l.roundLimiter, l.calls.made, l.poll, l.now) {
			break
		}
		more := l.pass(ctx, reason)
		select {
		case <-more:
			reason = inspect.ReasonMore
		default:
			from := l.now()
			reason = l.wait(ctx, more)
			l.pace.Idle(from, l.now())
		}
	}
}

// exited ends a loop whose goroutine was ended by a function of the program. The outcomes of
// what had been run in this round are written, and of what workers are running, as far as the
// functions that this takes do not end their goroutine as well.
func (l *Loop[Obj]) exited(ctx context.Context) error {
	err := fmt.Errorf("reconciler %q has ended in %s: %w", called(l.ID()), l.exitedIn(), execute.ErrGoexit)
	l.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may be long.
	l.reporter.TellEnd(err)
	l.torn = l.doing != doingPrune
	if l.doing == doingBatch {
		l.torn = !returned(l.completeLast)
	}
	// What else there is of a round is completed, or cannot be.
	l.recycle()
	returned(func() { l.finish(ctx) })
	l.pool.Stop()
	l.pool.Wait()
	return err
}

// exitedIn names the call that has ended the goroutine of the loop.
func (l *Loop[Obj]) exitedIn() string {
	switch l.doing {
	case doingBatch:
		for i := range l.batch.tasks {
			if t := &l.batch.tasks[i]; t.Err == execute.ErrGoexit {
				return fmt.Sprintf("%s of %s", t.Operation(), l.rows.Name(t.Row))
			}
		}
	case doingPrune:
		return "prune"
	}
	return "a function of the program"
}

// completeLast completes the batch in which the loop has ended.
func (l *Loop[Obj]) completeLast() {
	r := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
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
	l.pool.Stop()
	l.pool.Wait()
	r := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	began := l.now()
	l.began = began
	l.completeFinished(ctx, &r)
	l.account(&r)
	l.count()
	l.publish()
	l.report(&r, l.rows.DB.ReadTxn(), began)
}

// pass takes in what workers have finished, looks at the table and the clock, and runs a
// round if there is something to do. The returned channel is closed when there may be
// more to see; it is nil while there is no use in looking.
func (l *Loop[Obj]) pass(ctx context.Context, reason inspect.Reason) <-chan struct{} {
	r := inspect.Round{Reason: reason, Started: time.Now()}
	l.poll()
	// What was released or asked for until now is due in this round.
	began := l.now()
	l.began = began
	l.completeFinished(ctx, &r)
	txn := l.rows.DB.ReadTxn()
	size, _, looks := l.capacity(began)

	l.followUp(began)
	l.core.Begin(began, size, l.observer.MaxFresh())
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "reconcile round").End()
	}
	var more <-chan struct{}
	if looks {
		more = l.observer.Observe(txn, began)
	}
	plan := l.core.Plan()
	r.Refreshes = l.observer.Refreshes()
	ran := l.act(ctx, &r, txn, plan)
	l.core.End(ran)
	l.account(&r)
	l.count()
	l.publish()
	l.tellRefresher()

	l.prune(ctx, &r, txn, began)
	full := len(plan) == size
	l.report(&r, txn, began)
	size, _, looks = l.capacity(l.now())
	switch {
	case !looks, size == 0 && l.observer.Leftover():
		return nil
	case more == nil, size > 0 && (r.Returned > 0 || full && l.overdue(began)):
		return watch.Closed
	}
	return more
}

// overdue reports whether something was due at a time already.
func (l *Loop[Obj]) overdue(at time.Duration) bool {
	due, ok := l.core.NextDue()
	return ok && due < at
}
