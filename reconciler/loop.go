// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/metrics"
)

// Loop is a reconciler: it makes a target match a table for as long as it runs. One
// goroutine goes round through the stages, a file each: observe, plan (package core),
// act, commit, report. Its exported methods are safe from any goroutine.
type Loop[Obj comparable] struct {
	cfg     Config[Obj]
	opts    options
	log     *slog.Logger
	indexer statedb.Indexer[Obj]

	// started is the zero of the loop's clock; set before it runs.
	started time.Time
	running atomic.Bool

	progress   progress
	journal    *journal[Obj]
	pruneCalls chan struct{}

	// settings are what [Loop.Reconfigure] set last, one call at a time; the refresher
	// is told by reconfigured, the loop by pokes.
	settings      atomic.Pointer[Settings]
	reconfiguring sync.Mutex
	reconfigured  signal
	pokes         signal

	// The rest belongs to the goroutine of the loop.

	// set are the settings of this round.
	set       Settings
	core      *core.Core[Obj]
	executor  executor[Obj]
	metrics   metrics.Handle
	observer  observer[Obj]
	pruner    pruner
	blocked   *blocked
	pace      pace
	alarm     alarm
	reporter  reporter
	contended bool
	sequence  uint64
	tasks     []task[Obj]
	attempts  []attempt[Obj]
}

var _ Reconciler[int] = (*Loop[int])(nil)

// New returns a reconciler that does nothing until [Loop.Run] is called, for programs
// and tests without a hive. The error names every setting that is wrong.
func New[Obj comparable](cfg Config[Obj]) (*Loop[Obj], error) {
	opts, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", opts.name, err)
	}
	l := &Loop[Obj]{
		cfg:          cfg,
		opts:         opts,
		log:          cfg.Log.With("reconciler", opts.name, "module", cfg.ModuleID.String()),
		indexer:      cfg.Table.PrimaryIndexer(),
		pruneCalls:   make(chan struct{}, 1),
		set:          opts.Settings,
		reconfigured: newSignal(),
		pokes:        newSignal(),
		metrics:      metrics.Bind(opts.metrics, cfg.ModuleID, opts.name),
		blocked:      newBlocked(),
	}
	keyOf := l.indexer.ObjectToKey
	l.core = core.New(core.Config[Obj]{
		KeyOf:      func(obj Obj) []byte { return keyOf(obj) },
		MinBackoff: opts.MinBackoff,
		MaxBackoff: opts.MaxBackoff,
		Jitter:     opts.Jitter,
		Seed:       rand.Uint64(),
		RoundSize:  opts.RoundSize,
	})
	l.journal = newJournal[Obj](opts.journalRounds, opts.journalOperations,
		func(obj Obj) index.Key { return keyOf(obj) })
	l.settings.Store(&opts.Settings)
	l.executor = l.newExecutor()
	return l, nil
}

func (l *Loop[Obj]) newExecutor() executor[Obj] {
	g := guard{log: l.log, timeout: l.set.Timeout, metrics: l.metrics, now: l.now}
	if l.cfg.BatchOperations != nil || l.cfg.RoundOperations != nil {
		return &batched[Obj]{
			guard: g, clone: l.clone, batches: l.cfg.BatchOperations, rounds: l.cfg.RoundOperations,
		}
	}
	return &inline[Obj]{guard: g, clone: l.clone, ops: l.cfg.Operations}
}

// Prune implements [Reconciler].
func (l *Loop[Obj]) Prune() {
	select {
	case l.pruneCalls <- struct{}{}:
	default:
	}
}

// WaitUntilReconciled implements [Reconciler].
func (l *Loop[Obj]) WaitUntilReconciled(ctx context.Context, untilRevision statedb.Revision) (revision, retryLowWatermark statedb.Revision, err error) {
	return l.progress.wait(ctx, untilRevision)
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
// ended; any other error means that it could not start. The DB has to be started, or
// it never frees deleted objects. It is to be called once, and
// not if the loop was made by [RegisterConfig].
func (l *Loop[Obj]) Run(ctx context.Context) error {
	health := l.cfg.Health
	if health == nil {
		health = noHealth{}
	}
	if l.set.RefreshInterval == 0 {
		return l.reconcile(ctx, health.NewScope(l.scoped("reconcile")))
	}
	ctx, cancel := context.WithCancel(ctx)
	refreshed := make(chan error, 1)
	go func() { refreshed <- l.refresh(ctx, health.NewScope(l.scoped("refresh"))) }()
	err := l.reconcile(ctx, health.NewScope(l.scoped("reconcile")))
	cancel()
	return errors.Join(err, <-refreshed)
}

// reconcile is the job that runs the loop.
func (l *Loop[Obj]) reconcile(ctx context.Context, health cell.Health) error {
	if l.running.Swap(true) {
		return fmt.Errorf("reconciler %q has been run already", l.opts.name)
	}
	l.started = time.Now()
	wtxn := l.cfg.DB.WriteTxn(l.cfg.Table)
	changes, err := l.cfg.Table.Changes(wtxn)
	wtxn.Commit()
	if err != nil {
		return fmt.Errorf("reconciler %q: observing table %q: %w", l.opts.name, l.cfg.Table.Name(), err)
	}
	defer changes.Close()
	defer l.blocked.stop()
	l.observer.changes = changes
	l.reporter.health = health

	defer l.alarm.stop()

	for reason := ReasonStart; ctx.Err() == nil; {
		if !l.pace.admit(ctx, l.set.RoundLimiter, l.now) {
			break
		}
		watch := l.pass(ctx, reason)
		select {
		case <-watch:
			reason = ReasonMore
		default:
			from := l.now()
			reason = l.wait(ctx, watch)
			l.pace.idle(from, l.now())
		}
	}
	return nil
}

// pass looks at the table and the clock, and runs a round if there is something to do.
// The returned channel is closed when there may be more to see.
func (l *Loop[Obj]) pass(ctx context.Context, reason Reason) <-chan struct{} {
	r := Round{Reason: reason, Started: time.Now()}
	began := l.now()
	l.poll()
	txn := l.cfg.DB.ReadTxn()

	l.core.Begin(began)
	watch := l.observe(txn)
	plan := l.core.Plan()
	r.Refreshes = l.observer.refreshes
	tasks, attempts := l.act(ctx, &r, txn, plan)
	l.commit(&r, tasks, attempts)
	l.settle(&r, plan, tasks, attempts)
	l.core.End(len(tasks))
	l.progress.publish(l.core.Attempted(l.observer.revision), l.core.LowWatermark())

	if l.pruneDue(txn, began) {
		l.prune(ctx, &r, txn)
	}
	full := len(plan) == l.set.RoundSize
	l.report(&r, txn, began, tasks, attempts)
	if r.Returned > 0 || full && l.overdue(began) {
		return closedWatch
	}
	return watch
}

// overdue reports whether something was due at a time already.
func (l *Loop[Obj]) overdue(at time.Duration) bool {
	due, ok := l.core.NextDue()
	return ok && due < at
}
