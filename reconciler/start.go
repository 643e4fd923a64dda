// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/blocked"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var _ Reconciler[int] = (*Loop[int])(nil)

// New returns a reconciler that does nothing until [Loop.Run] is called. It is for programs and tests
// without a hive. The error names everything that is wrong with the configuration.
//
// If the rows carry no status, New makes the tables of the outcomes, and empties them if a reconciler
// that has ended left them behind. It locks no other table: the caller may hold a write transaction of
// Config.Table. It is an error if another reconciler has the tables: one that was made and has not ended,
// also if it was never run.
func New[Obj comparable](cfg Config[Obj]) (*Loop[Obj], error) { return newLoop(cfg, nil) }

// newLoop is New. fallback are the metrics without [WithMetrics]; nil means unpublished ones.
func newLoop[Obj comparable](cfg Config[Obj], fallback Metrics) (*Loop[Obj], error) {
	s, err := resolve(cfg, fallback)
	if err != nil {
		return nil, err
	}
	l := &Loop[Obj]{
		setup: s, rows: s.cfg.newRows(), beside: !s.cfg.statusInRows(),
		life: life{ended: make(chan struct{})},
	}
	l.settings.Store(&s.opts.settings)
	l.calls.made = signal.New()
	classes := &outcome.Classes[Obj]{Function: l.cfg.ErrorClass, Panics: l.cfg.PanicPropagation, Rows: l.rows, Log: l.log}
	l.stats.state.Store(new(state))
	// The configuration of the executors of the loop and of its workers.
	l.execute = execute.Config[Obj]{
		Rows: l.rows, Single: l.cfg.Operations, Batches: l.cfg.BatchOperations, Rounds: l.cfg.RoundOperations,
		Now: l.now, Timeout: func() time.Duration { return l.settings.Load().Timeout },
		Metrics: l.bindMetrics, Log: l.log, ID: l.id, Hook: l.opts.hook,
		Class: classes.ByFunction, PanicPropagation: l.cfg.PanicPropagation,
	}
	l.workers = execute.NewPool(&l.execute)
	l.journal = journal.New(l.opts.journalRounds, l.opts.journalOperations, l.rows.Name)
	if l.runner, err = newRunner(l, classes); err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", called(l.id), err)
	}
	l.view = newView(l)
	return l, nil
}

// newRows returns the rows of the table.
func (cfg *Config[Obj]) newRows() *rows.Rows[Obj] {
	if !cfg.statusInRows() {
		return rows.NewBeside(cfg.DB, cfg.Table)
	}
	return rows.New(cfg.DB, cfg.Table.(statedb.RWTable[Obj]), rows.Functions[Obj]{
		Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge,
	})
}

// bindMetrics returns a handle of the metrics for one goroutine.
func (l *Loop[Obj]) bindMetrics() metrics.Handle {
	return metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name)
}

// scoped returns a job's name with the reconciler's name appended, if it has one.
func (l *Loop[Obj]) scoped(job string) string {
	if l.opts.name == "" {
		return job
	}
	return job + "-" + l.opts.name
}

// Run reconciles until ctx ends, and refreshes if that is on. Call it once, and not if the loop was
// made by [RegisterConfig]. The DB has to be started, otherwise deleted objects are never freed.
//
// Run returns nil when ctx has ended. By then the outcomes of finished operations are committed, and
// all its goroutines have ended. An error means that the loop could not start, or that a function of the
// program which Run called on its own goroutine called runtime.Goexit: then no outcome of that pass is written. If
// it was an operation in line, the error names it.
func (l *Loop[Obj]) Run(ctx context.Context) error {
	return l.reconcile(ctx, func() (own, refreshing cell.Health) {
		health := l.cfg.Health
		if health == nil {
			health = noHealth()
		}
		return health.NewScope(l.scoped("reconcile")), health.NewScope(l.scoped("refresh"))
	})
}

// reconcile runs the loop. health returns where it reports its own health and that of refreshing.
func (l *Loop[Obj]) reconcile(ctx context.Context, health func() (own, refreshing cell.Health)) error {
	if l.claimed.Swap(true) {
		return fmt.Errorf("reconciler %q has been run already", called(l.id))
	}
	defer close(l.ended)
	l.started = time.Now()
	l.running.Store(true)
	l.rows.Begin()
	defer metrics.Attach(l.opts.metrics, l.cfg.ModuleID, l.opts.name, l)()
	if l.opts.registry != nil {
		l.opts.registry.Add(l)
		defer l.opts.registry.Remove(l)
	}
	own, refreshing := health()
	l.refresher.Health = refreshing
	return l.runner.run(ctx, own)
}

func newRunner[Obj comparable](l *Loop[Obj], classes *outcome.Classes[Obj]) (*runner[Obj], error) {
	r := &runner[Obj]{
		Loop: l, classes: classes, set: l.Settings(), blocked: blocked.New(), rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		metrics: l.bindMetrics(), paused: &pause[Obj]{},
	}
	l.pause.Store(r.paused)
	r.health = r.newReporter()
	r.core = core.New(core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return r.rows.Key(obj) }, GroupOf: r.cfg.SerialBy, SamePending: r.rows.SamePending,
		Limits: r.set.limits(), Breaker: (*core.BreakerConfig)(r.opts.breaker), Records: r.beside, Seed: rand.Uint64(),
	})
	if err := r.openLedger(); err != nil {
		return nil, err
	}
	l.pruner = prune.New(prune.Config[Obj]{
		Rows: l.rows, Sweeps: l.cfg.Sweeper != nil, Budget: l.opts.budget, Tracks: r.core.TracksKeyOf,
	})
	l.refresher = refresh.New(refresh.Config[Obj]{Rows: l.rows, Batches: l.execute.IsBatched(), Give: l.repeat.again})
	l.keyWaits = keywaits.New(l.rows, r.core.UnreconciledOf, r.isPaused, r.ledger)
	r.observer = r.newObserver()
	return r, nil
}

// openLedger chooses the ledger, and opens its tables if it is beside the table. The core has to exist.
func (r *runner[Obj]) openLedger() error {
	if !r.beside {
		r.ledger, r.marks, r.repeat = ledger.NewInRows(r.rows, r.log, r.now), &r.progress, byMark[Obj]{r.rows}
		return nil
	}
	// The tables refer to the function also after the loop has ended: it must not refer to the loop.
	of := r.rows
	tables, err := ledger.OpenTables(of.DB, cmp.Or(r.opts.name, of.Table.Name()), r.ended, func(text string) (index.Key, error) {
		return of.Keys(text)[0], nil
	})
	if err != nil {
		return err
	}
	r.ledger, r.marks = ledger.NewBeside(of, tables, r.core, r.log, r.now, r.timeOf), observe.NoWaits{}
	r.repeat = byKey[Obj]{r.Loop}
	return nil
}

// run runs the loop until ctx ends, or until a function of the program ends its goroutine.
func (r *runner[Obj]) run(ctx context.Context, health cell.Health) error {
	if err := r.observer.Start(ctx); err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
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
	r.executor = x
	r.reconfigure(ctx, r.now())
	// A program that sees the first row Done also finds metrics.
	r.metrics.ReconciliationErrors(0, 0)
	if returned(func() { r.loop(ctx); r.finish(ctx) }) {
		return nil
	}
	cancel()
	return r.exited()
}

// returned calls f on a new goroutine, and reports whether it returned. It does not return if it
// calls runtime.Goexit. A panic ends the program.
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

// exited ends a loop whose goroutine was ended by a function of the program, which may have left any state behind.
// So nothing more is written: the next run begins with the operations of this pass, and with those of the workers.
func (r *runner[Obj]) exited() error {
	where := "a function of the program"
	for i := range r.ops {
		if op := &r.ops[i]; op.Err == execute.ErrGoexit {
			where = execute.NameOf(op.Deleted) + " of " + r.rows.Name(op.Row)
		}
	}
	err := fmt.Errorf("reconciler %q has ended in %s: %w", called(r.ID()), where, execute.ErrGoexit)
	r.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may take long.
	r.health.TellEnd(err)
	r.workers.Stop()
	return err
}

// finish waits for the running operations, whose context has ended, and commits their outcomes.
func (r *runner[Obj]) finish(ctx context.Context) {
	r.takeBackQueued()
	r.workers.Stop()
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.began = r.now()
	r.completeFinished(ctx, &round)
	r.writeOutcomes(&round)
	r.account(&round)
	r.publish()
	r.report(&round)
}
