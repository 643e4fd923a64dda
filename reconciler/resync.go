// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/fights"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Lister lists what the target has, so that the reconciler compares it with the table: a resync. What is equal is
// left alone, and Done if it had failed or was blocked, as after [Loop.Verify]. Objects that no row wants are deleted, and
// rows that the target lacks or has differently are applied again.
type Lister[Obj any] interface {
	// List calls yield with every object in the target that this reconciler manages, with the values that
	// [Config].Equal compares and the fields that Delete needs. The object is kept, so it must not be changed
	// afterwards. List stops when yield returns false, which means that the reconciler stops. It must not call yield
	// from two goroutines at the same time, nor after it has returned. txn is a snapshot, to look up other objects; it
	// must not be kept after the call. When the first listing begins, its tables may be empty. ctx ends when the
	// reconciler stops, which waits for List. It has no deadline: set one in List if the target may hang.
	//
	// A key may be listed twice, if the target has two objects for it: the row is equal only if it is equal to both, and
	// is not adopted.
	// Of an orphan that is listed twice one is deleted, and the other after the next resync.
	//
	// List runs on a goroutine of its own, beside operations, one call at a time. An object of which an operation
	// has ended since the call began is not judged by it, so a listing need not be a snapshot of the target. But
	// it must not return what the target had before the call: no cache.
	//
	// An object without a usable key is left alone, and health reports it until a listing has none.
	//
	// An error means that the list is incomplete: nothing is changed, the listing is retried with backoff, and health
	// reports the failure until one works. List is called
	//   - when the loop starts, if Config.Equal is set, and again until it works or [Settings].ListTimeout is over;
	//   - when the table is initialised and every object that it had then has been attempted: orphans are deleted
	//     after this one at the earliest. A table without initialisers is initialised at once, so if its rows come
	//     over time, register one: otherwise what they want is deleted before they come, also with [WithoutPruning];
	//   - each [Settings].ResyncInterval, and after [Loop.Resync].
	//
	// A Prune method of the operations is not called then. [Loop.Plan] calls List as well: see [IsPlan].
	List(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
}

// Resync asks for a listing of the target and a comparison with the table as soon as possible: after a flush of the
// target, for example. It does not wait for them, and no wait covers the repairs that follow, which
// [Settings].RefreshLimiter bounds. If one is running, another follows. Without [Config].Lister it is
// [Loop.Prune]. Safe from any goroutine.
func (l *Loop[Obj]) Resync() { l.Prune() }

// connectResync makes the stage that looks at the target.
func (r *runner[Obj]) connectResync() {
	s, cfg := r.shared, &r.shared.setup.cfg
	r.fights = fights.New(s.execution.config.Look != nil, func(obj Obj) []byte { return s.rows.Key(obj) }, func() fights.Settings {
		return fights.Settings{MinBackoff: r.set.MinBackoff, MaxBackoff: r.set.MaxBackoff, Resync: r.set.ResyncInterval}
	})
	set := resync.Config[Obj]{
		Rows: s.rows, OrphansOnly: cfg.OrphansOnly, Equal: cfg.Equal, Diff: cfg.Diff, Budget: s.setup.opts.budget,
		Kind: func(txn statedb.ReadTxn, row Obj, revision statedb.Revision) status.Kind {
			return s.ledger.Status(txn, row, revision).Kind
		},
		Tracks: r.core.TracksKeyOf, TracksKey: func(key string) bool { _, has := r.core.KeyInfo(key, 0); return has }, Fights: r.fights,
		Orphan: func(obj Obj, revision statedb.Revision) bool {
			added := r.core.AddOrphan(obj, revision)
			if added {
				s.needs.NoteOrphan(obj)
			}
			return added
		},
		Repair: func(wanted func(Obj, statedb.Revision) bool) {
			s.refresher.WalkRepairs(refresh.WalkOver(func(row refresh.Row[Obj]) bool { return wanted(row.Object, row.Revision) }))
		},
		Attempted: func() statedb.Revision { return r.core.Index.Attempted(r.observer.Revision()) },
		Busy: func() (busy, stuck bool) {
			n, _, _ := r.workers.NumStuck()
			return r.workers.IsBusy(), n > 0
		},
		Settings: r.resyncSettings, Now: s.life.now,
		Guard: func(name string, f func() error) (err error) {
			defer s.execution.config.Recover(name, &err)
			return f()
		},
	}
	switch {
	case cfg.Lister != nil:
		set.List = func(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error {
			// It has a scope of its own: it is not in an operation that runs beside it.
			ctx, _ = execute.New(ctx, &s.execution.config)
			return cfg.Lister.List(ctx, txn, yield)
		}
	case cfg.Pruner != nil:
		set.Prune = r.callPrune
	}
	r.resync = resync.New(set)
}

// resyncSettings returns the settings of the stage that looks at the target.
func (r *runner[Obj]) resyncSettings() resync.Settings {
	s := r.set
	set := resync.Settings{Interval: s.PruneInterval, MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff, ListTimeout: s.ListTimeout}
	if r.shared.setup.cfg.Lister != nil {
		// Programs that were started together do not list together.
		set.Interval = backoff.Exponential{Jitter: s.Jitter, Rand: r.rand}.Spread(s.ResyncInterval)
	}
	return set
}

// callPrune calls the Pruner.
func (r *runner[Obj]) callPrune(ctx context.Context, txn statedb.ReadTxn) (err error) {
	s := r.shared
	r.reports.health.Begin(s.life.now())
	defer r.reports.health.End()
	scope := s.execution.scope.Load()
	scope.Set(execute.Calling[Obj]{Operation: "prune", Since: s.life.now()})
	defer scope.Set(execute.Calling[Obj]{})
	defer s.execution.config.Recover("prune", &err)
	return s.setup.cfg.Pruner.Prune(ctx, txn, s.rows.Table.All(txn))
}

// look ends a look at the target, and begins the prune or the resync that is due. txn is the snapshot of the round that
// has just ended.
func (r *runner[Obj]) look(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn) {
	ended, changed := r.resync.Step(ctx, resync.Pass{
		Now: r.life.now(), Txn: txn, Read: r.observer.Revision(), Paused: r.paused.whole,
	})
	switch {
	case ended != nil && ended.Record.Adopts && ended.Err == nil:
		round.Resync, r.lastResync = &ended.Record, &ended.Record
	case ended != nil:
		r.looked(round, ended)
	case changed:
		r.publishState()
	}
}

// looked records the end of a prune or a resync.
func (r *runner[Obj]) looked(round *inspect.Round, ended *resync.Result) {
	record, log := &ended.Record, r.shared.setup.log
	message := "resync failed"
	if r.shared.setup.cfg.Lister == nil {
		message = "prune failed"
		round.Prune = &inspect.Prune{Took: record.Took, Error: record.Error}
	} else {
		round.Resync, r.lastResync = record, record
	}
	switch {
	case errors.Is(ended.Err, resync.ErrAwaits):
		message = "resync awaits approval"
	case errors.Is(ended.Err, resync.ErrLeftAlone):
		message = "some listed objects are left alone"
	}
	if n := record.Different + record.Missing + record.Orphan; n > 0 && ended.Err == nil {
		log.Info("resync", "found", record.Summary(), "first", record.Differences)
	}
	if ended.Err != nil && r.reports.mayLogPrune(message, r.life.now()) {
		log.Warn(message, "error", ended.Err, "failures", ended.Failures, "retryAfter", ended.After)
	}
	judged := resync.IsJudged(ended.Err) || errors.Is(ended.Err, resync.ErrAwaits) // which waits with deletions only
	if judged && r.shared.execution.config.Look == nil {
		r.shared.needs.NoteResync(record.Started, func(row Obj) bool { return r.resync.Wrong(row) != "" })
	}
	r.reports.metrics.PruneDuration(record.Took)
	r.reports.metrics.PruneError(ended.Err)
	r.noteLook(ended.Err)
}
