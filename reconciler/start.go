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
	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
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
// even if it was never run.
func New[Obj any](cfg Config[Obj]) (*Loop[Obj], error) { return newLoop(cfg, nil) }

// newLoop is New. fallback are the metrics without [WithMetrics]; nil means unpublished ones.
func newLoop[Obj any](cfg Config[Obj], fallback Metrics) (*Loop[Obj], error) {
	s, err := newSetup(cfg, fallback)
	if err != nil {
		return nil, err
	}
	l := &Loop[Obj]{shared: shared[Obj]{setup: s, rows: s.cfg.newRows(), life: life{tookOver: make(chan struct{}), ended: make(chan struct{})}}}
	l.member = chain.Hide[chain.Part](part[Obj]{l})
	l.settings.Store(&s.opts.settings)
	l.calls.made = signal.New()
	l.calls.pause.Store(&pause[Obj]{})
	l.stats.state.Store(new(state))
	l.stats.journal = journal.New(l.rows.Name)
	l.execution.config = execute.Config[Obj]{
		Rows: l.rows, Single: s.cfg.Operations, Batches: s.cfg.BatchOperations, Rounds: s.cfg.RoundOperations,
		Now: l.life.now, Timeout: func() time.Duration { return l.settings.Load().Timeout },
		Metrics: s.bindMetrics, Log: s.log, ID: s.id, Hook: s.opts.hook,
		PanicPropagation: s.cfg.PanicPropagation,
	}
	l.execution.config.Look = l.newLook()
	l.execution.workers = execute.NewPool(&l.execution.config)
	if err := l.connect(); err != nil {
		return nil, fmt.Errorf("reconciler %q: %w", called(s.id), err)
	}
	return l, nil
}

// connect makes the stages of a loop, and connects them.
func (l *Loop[Obj]) connect() error {
	s, cfg := &l.shared, &l.setup.cfg
	beside := l.rows.Writable == nil
	c := core.New(core.Config[Obj]{
		KeyOf: func(obj Obj) []byte { return s.rows.Key(obj) }, GroupOf: cfg.SerialBy, SamePending: s.rows.MaySamePending,
		Limits: s.settings.Load().limits(), Records: beside, Seed: rand.Uint64(),
	})
	r := &runner[Obj]{shared: s, life: &s.life, workers: s.execution.workers, set: s.settings.Load(), paused: s.calls.pause.Load(), core: c}
	l.runner = r
	var waits observe.Waits
	if beside {
		b, err := openBeside(s, c)
		if err != nil {
			return err
		}
		s.ledger, waits = b, observe.NoWaits{}
	} else {
		s.ledger, waits = ledger.NewInRows(s.rows, s.setup.log, s.life.now), &s.progress
	}
	s.needs = r.newNeeds()
	s.execution.config.Needs = s.needs
	l.view = newView(s)
	s.refresher = refresh.New(s.rows)
	s.keyWaits = keywaits.New(s.rows, c.UnreconciledOf, func(obj Obj) bool { return r.paused.pauses(obj) }, s.ledger)
	r.blocked, r.rand = blocked.New(), rand.New(rand.NewPCG(rand.Uint64(), 0))
	r.observer = r.newObserver(waits)
	r.reports = reports[Obj]{view: l.view, health: newReporter(&s.life, &s.settings, l.view.busy), metrics: s.setup.bindMetrics()}
	r.connectResync()
	return nil
}

// openBeside opens the ledger beside the table.
func openBeside[Obj any](s *shared[Obj], c *core.Core[Obj]) (*ledger.Beside[Obj], error) {
	// The tables refer to the function also after the loop has ended: it must not refer to the loop.
	of := s.rows
	tables, err := ledger.OpenTables(of.DB, cmp.Or(s.setup.opts.name, of.Table.Name()), s.life.ended, func(text string) (index.Key, error) {
		return of.Keys(text)[0], nil
	})
	if err != nil {
		return nil, err
	}
	return ledger.NewBeside(of, tables, c.Index, s.setup.log, s.life.now, s.life.timeOf), nil
}

// newRows returns the rows of the table.
func (cfg *Config[Obj]) newRows() *rows.Rows[Obj] {
	if !cfg.statusInRows() {
		return rows.NewBeside(cfg.DB, cfg.Table)
	}
	return rows.New(cfg.DB, cfg.Table.(statedb.RWTable[Obj]), rows.Writable[Obj]{
		Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge,
	})
}

// bindMetrics returns a handle of the metrics for one goroutine.
func (s *setup[Obj]) bindMetrics() metrics.Handle {
	return metrics.Bind(s.opts.metrics, s.cfg.ModuleID, s.opts.name)
}

// scoped returns a job's name with the reconciler's name appended, if it has one.
func (s *setup[Obj]) scoped(job string) string {
	if s.opts.name == "" {
		return job
	}
	return job + "-" + s.opts.name
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
		health := l.setup.cfg.Health
		if health == nil {
			health = noHealth()
		}
		return health.NewScope(l.setup.scoped("reconcile")), health.NewScope(l.setup.scoped("refresh"))
	})
}

// reconcile runs the loop. health returns where it reports its own health and that of refreshing.
func (l *Loop[Obj]) reconcile(ctx context.Context, health func() (own, refreshing cell.Health)) error {
	if l.life.claimed.Swap(true) {
		return fmt.Errorf("reconciler %q has been run already", called(l.setup.id))
	}
	defer close(l.life.ended)
	defer l.needs.Stop()
	l.life.started = time.Now()
	l.life.running.Store(true)
	l.rows.Begin()
	defer metrics.Attach(l.setup.opts.metrics, l.setup.cfg.ModuleID, l.setup.opts.name, l)()
	if l.setup.opts.registry != nil {
		l.setup.opts.registry.Add(l)
		defer l.setup.opts.registry.Remove(l)
	}
	own, refreshing := health()
	l.refresher.Health = refreshing
	return l.runner.run(ctx, own)
}

// run runs the loop until ctx ends, or until a function of the program ends its goroutine.
func (r *runner[Obj]) run(ctx context.Context, health cell.Health) error {
	if err := r.observer.Start(ctx); err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("reconciler %q: observing table %q: %w", called(r.shared.setup.id), r.shared.rows.Table.Name(), err)
	}
	defer r.observer.Stop()
	defer r.blocked.Stop()
	defer r.alarm.Stop()
	defer r.reports.health.Stop()
	r.reports.health.Start(health)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Before the operations have ended, which may take long.
	defer context.AfterFunc(ctx, r.resync.EndPlans)()
	ctx, x := execute.New(ctx, &r.shared.execution.config)
	r.shared.execution.scope.Store(x.Scope)
	r.executor = x
	r.reconfigure(ctx, r.life.now())
	if r.shared.setup.cfg.Equal != nil {
		r.resync.Adopt(r.life.now())
	}
	// A program that sees the first row Done also finds metrics.
	r.reports.metrics.ReconciliationErrors(0, 0)
	if guard.Returned(func() { r.loop(ctx); r.finish(ctx) }) {
		return nil
	}
	cancel()
	return r.exited()
}

// exited ends a loop whose goroutine was ended by a function of the program, which may have left any state behind.
// So nothing more is written: the next run begins with the operations of this pass, and with those of the workers.
func (r *runner[Obj]) exited() error {
	where := "a function of the program"
	for i := range r.ops {
		if op := &r.ops[i]; op.Run.Err == execute.ErrGoexit {
			where = execute.NameOf(op.Deleted) + " of " + r.shared.rows.Name(op.Row)
		}
	}
	err := fmt.Errorf("reconciler %q has ended in %s: %w", called(r.shared.setup.id), where, execute.ErrGoexit)
	r.shared.setup.log.Error("the reconciler has ended", "error", err)
	// Before the wait for workers, which may take long.
	r.reports.health.TellEnd(err)
	r.workers.Stop()
	r.resync.Stop()
	return err
}

// finish waits for the running operations, whose context has ended, and commits their outcomes.
func (r *runner[Obj]) finish(ctx context.Context) {
	r.takeBackQueued()
	r.workers.Stop()
	round := inspect.Round{Reason: inspect.ReasonStop, Started: time.Now()}
	r.this.began = r.life.now()
	r.completeFinished(ctx, &round)
	r.writeOutcomes(&round)
	r.account(&round)
	r.endWaits()
	r.report(&round)
	// A listing that ignores its context keeps no outcome from being written.
	r.resync.Stop()
}
