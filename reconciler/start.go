// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cilium/hive/cell"

	"github.com/statekeel/statekeel/internal/blocked"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/prune"
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
func New[Obj comparable](cfg Config[Obj]) (*Loop[Obj], error) {
	opts, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", called(cfg.id(&opts)), err)
	}
	l := &Loop[Obj]{
		cfg: cfg, opts: opts, log: cfg.Log.With("reconciler", called(cfg.id(&opts))),
		rows: cfg.newRows(), beside: !cfg.statusInRows(),
		life: life{ended: make(chan struct{})},
	}
	tables, err := l.openTables()
	if err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", called(cfg.id(&opts)), err)
	}
	l.settings.Store(&opts.Settings)
	l.calls.made = signal.New()
	classes := &outcome.Classes[Obj]{Function: cfg.ErrorClass, Panics: cfg.PanicPropagation, Rows: l.rows, Log: l.log}
	l.stats.state.Store(&state{breakers: &breakers{}})
	l.execute = l.executeConfig(classes)
	l.workers = newWorkers(l.now, &l.execute)
	l.journal = journal.New(opts.journalRounds, opts.journalOperations, l.rows.Name)
	l.runner = newRunner(l, classes, tables)
	l.view = newView(l)
	return l, nil
}

// executeConfig returns the configuration of the executors of the loop and of its workers.
func (l *Loop[Obj]) executeConfig(classes *outcome.Classes[Obj]) execute.Config[Obj] {
	return execute.Config[Obj]{
		Rows: l.rows, Single: l.cfg.Operations, Batches: l.cfg.BatchOperations, Rounds: l.cfg.RoundOperations,
		Now: l.now, Timeout: func() time.Duration { return l.settings.Load().Timeout },
		Metrics: func() metrics.Handle { return metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name) },
		Log:     l.log, Hook: l.opts.hookCall(l.ID()), Class: classes.ByFunction, PanicPropagation: l.cfg.PanicPropagation,
	}
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
// program which Run called on its own goroutine called runtime.Goexit. If that was an operation, in line
// or a prune, the error names it.
func (l *Loop[Obj]) Run(ctx context.Context) error {
	if l.running.Load() {
		return l.runAlready()
	}
	health := l.cfg.Health
	if health == nil {
		health = noHealth{}
	}
	return l.reconcile(ctx, health.NewScope(l.scoped("reconcile")), health.NewScope(l.scoped("refresh")))
}

func (l *Loop[Obj]) runAlready() error {
	return fmt.Errorf("reconciler %q has been run already", called(l.ID()))
}

// reconcile runs the loop. Refreshing has a health of its own.
func (l *Loop[Obj]) reconcile(ctx context.Context, health, refreshHealth cell.Health) error {
	if l.running.Swap(true) {
		return l.runAlready()
	}
	defer close(l.ended)
	defer l.ledger.Close()
	l.started = time.Now()
	l.rows.Begin()
	defer metrics.Attach(l.opts.metrics, l.cfg.ModuleID, l.opts.name, l)()
	if l.opts.registry != nil {
		l.opts.registry.Add(l)
		defer l.opts.registry.Remove(l)
	}
	l.refresher.Health = refreshHealth
	return l.runner.run(ctx, health)
}

func newRunner[Obj comparable](l *Loop[Obj], classes *outcome.Classes[Obj], tables *ledger.Tables) *runner[Obj] {
	r := &runner[Obj]{
		Loop: l, classes: classes, set: l.opts.Settings, blocked: blocked.New(), rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		metrics: metrics.Bind(l.opts.metrics, l.cfg.ModuleID, l.opts.name),
	}
	r.paused = &pause[Obj]{}
	l.pause.Store(r.paused)
	r.health = r.newReporter()
	r.core = core.New(r.coreConfig())
	r.useLedger(tables)
	l.pruner = prune.New(prune.Config[Obj]{
		Rows: l.rows, Sweeps: l.cfg.Sweeper != nil, Budget: l.opts.budget, Tracks: r.core.TracksKeyOf,
	})
	l.refresher = r.newRefresher()
	r.observer = r.newObserver()
	l.keyWaits = keywaits.New(l.rows, r.unreconciledOf, r.isPaused, r.ledger)
	return r
}

// coreConfig returns the configuration of the core.
func (r *runner[Obj]) coreConfig() core.Config[Obj] {
	cfg := core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return r.rows.Key(obj) }, GroupOf: r.cfg.SerialBy, SamePending: r.rows.SamePending, Limits: r.set.limits(), Seed: rand.Uint64(),
		Records: r.beside,
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
	x.Admit = r.admitOne
	r.executor = x
	r.reconfigure(ctx, r.now())
	// A program that sees the first row Done also finds metrics.
	r.metrics.ReconciliationErrors(0, 0)
	if returned(func() { r.loop(ctx); r.finish(ctx) }) {
		return nil
	}
	// The loop cannot go on: the function that called runtime.Goexit may have left any state behind.
	cancel()
	return r.exited(ctx)
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

// exited ends a loop whose goroutine was ended by a function of the program. It writes the outcomes
// of the operations of this round, and those of operations that workers are running, unless a
// function that this calls ends its goroutine as well.
func (r *runner[Obj]) exited(ctx context.Context) error {
	err := fmt.Errorf("reconciler %q has ended in %s: %w", called(r.ID()), r.exitedIn(), execute.ErrGoexit)
	r.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may take long.
	r.health.TellEnd(err)
	r.torn = r.doing != doingPrune
	if r.doing == doingBatch {
		r.torn = !returned(r.completeLast)
	}
	// The rest of the round is completed by now, or cannot be completed.
	r.forgetOperations()
	returned(func() { r.finish(ctx) })
	r.workers.Stop()
	r.workers.Wait()
	return err
}

// exitedIn names the call that ended the goroutine of the loop.
func (r *runner[Obj]) exitedIn() string {
	switch r.doing {
	case doingBatch:
		for i := range r.ops {
			if op := &r.ops[i]; op.Err == execute.ErrGoexit {
				return fmt.Sprintf("%s of %s", execute.NameOf(op.Deleted), r.rows.Name(op.Row))
			}
		}
	case doingPrune:
		return "prune"
	}
	return "a function of the program"
}

// completeLast completes the operations that were running when the loop ended.
func (r *runner[Obj]) completeLast() {
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.complete(&round)
	r.account(&round)
	r.report(&round)
}

// doing is the kind of function of the program that the goroutine of the loop is calling.
type doing uint8

const (
	doingNothing doing = iota
	doingBatch
	doingPrune
)

// finish waits for the running operations, whose context has ended, and commits their outcomes.
func (r *runner[Obj]) finish(ctx context.Context) {
	r.takeBackQueued()
	r.workers.Stop()
	r.workers.Wait()
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.began = r.now()
	r.completeFinished(ctx, &round)
	r.writeOutcomes(&round)
	r.account(&round)
	r.publish()
	r.report(&round)
}
