// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/metrics"
)

// Loop is a reconciler: it makes a target match a table for as long as it runs. Its exported
// methods are safe from any goroutine. What only the goroutine of the loop may use is in its
// [runner].
type Loop[Obj comparable] struct {
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
	progress progress.Progress[account[Obj]]
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
	// ended is closed when the loop has stopped, refreshing when the job of the refresher
	// has begun; nil if it has none.
	ended, refreshing chan struct{}
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

var _ Reconciler[int] = (*Loop[int])(nil)

// New returns a reconciler that does nothing until [Loop.Run] is called, for programs
// and tests without a hive. The error names every setting that is wrong.
func New[Obj comparable](cfg Config[Obj]) (*Loop[Obj], error) {
	opts, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", called(cfg.id(&opts)), err)
	}
	l := &Loop[Obj]{
		cfg: cfg, opts: opts, log: cfg.Log.With("reconciler", called(cfg.id(&opts))),
		rows: rows.New(cfg.DB, cfg.Table, rows.Functions[Obj]{
			Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge,
		}),
		life: life{ended: make(chan struct{})},
	}
	l.settings.Store(newConfiguration(opts.Settings))
	l.calls.made = signal.New()
	classes := &outcome.Classes[Obj]{Function: cfg.ErrorClass, Panics: cfg.PanicPropagation, Rows: l.rows, Log: l.log}
	l.stats.errors = classes
	l.execute = l.executeConfig(classes)
	l.workers = newWorkers(l.now, &l.execute)
	l.journal = journal.New(opts.journalRounds, opts.journalOperations, l.rows.Name)
	l.refresher = l.newRefresher()
	l.runner = newRunner(l, classes)
	l.view = newView(l)
	return l, nil
}

// executeConfig returns what calls operations, for the loop and its workers.
func (l *Loop[Obj]) executeConfig(classes *outcome.Classes[Obj]) execute.Config[Obj] {
	return execute.Config[Obj]{
		Rows: l.rows, Single: l.cfg.Operations, Batches: l.cfg.BatchOperations, Rounds: l.cfg.RoundOperations,
		Now: l.now, Timeout: func() time.Duration { return l.settings.Load().Timeout },
		Metrics: func() metrics.Handle { return metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name) },
		Log:     l.log, Hook: l.opts.hookCall(l.ID()), Class: classes.ByFunction, PanicPropagation: l.cfg.PanicPropagation,
	}
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
	return l.runner.run(ctx, health)
}
