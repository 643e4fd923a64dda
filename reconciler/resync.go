// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Lister lists what the target has, so that the reconciler compares it with the table: a resync. What is equal is
// left alone. Objects that no row wants are deleted, and rows of which the target has nothing, or something else, are
// applied again.
type Lister[Obj any] interface {
	// List calls yield with every object in the target that this reconciler manages, with the values that
	// [Config].Equal compares and the fields that Delete needs. The object is kept, so it must not be changed
	// afterwards. List stops when yield returns false, which means that the reconciler stops. It must not call yield
	// from two goroutines at the same time, nor after it has returned. txn is a snapshot, to look up other objects; it
	// must not be kept after the call. When the first listing begins, its tables may be empty. ctx ends when the
	// reconciler stops, which waits for List. It has no deadline: set one in List if the target may hang.
	//
	// A key may be listed twice, if the target has two objects for it: the row is equal only if it is equal to both.
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
	// A Prune method of the operations is not called then.
	List(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
}

// Resync asks for a listing of the target and a comparison with the table as soon as possible: after a flush of the
// target, for example. It does not wait for them, and no wait covers the repairs that follow, which
// [Settings].RefreshLimiter bounds. If one is running, another follows. Without [Config].Lister it is
// [Loop.Prune]. Safe from any goroutine.
func (l *Loop[Obj]) Resync() { l.Prune() }

// newResync returns the stage that lists the target.
func newResync[Obj any](s *shared[Obj], c *core.Core[Obj]) *resync.Resync[Obj] {
	cfg := &s.setup.cfg
	set := resync.Config[Obj]{
		Rows: s.rows, OrphansOnly: cfg.OrphansOnly, Equal: cfg.Equal, Diff: cfg.Diff, Budget: s.setup.opts.budget,
		Done: func(txn statedb.ReadTxn, row Obj, revision statedb.Revision) bool {
			return s.ledger.Status(txn, row, revision).Kind == status.KindDone
		},
		Tracks:  c.TracksKeyOf,
		Timeout: func() time.Duration { return s.settings.Load().ListTimeout }, Now: s.life.now,
		Guard: func(name string, f func() error) (err error) {
			defer s.execution.config.Recover(name, &err)
			return f()
		},
	}
	if cfg.Lister != nil {
		set.List = cfg.Lister.List
	}
	return resync.New(set)
}

// adopt has the loop wait for a listing, and compare rows with it before they are applied.
func (r *runner[Obj]) adopt() {
	r.resync.WaitForFirst(r.life.now())
	r.shared.pruner.Request(false)
}

// lookAtListing ends the wait for the first listing, and the comparison with it, if they last too long.
func (r *runner[Obj]) lookAtListing() {
	p := r.shared.pruner
	if r.resync.Look(r.life.now()) {
		p.RaiseGate(r.shared.rows.Revision())
		p.Request(false)
	}
}

// stopListing ends the listing that runs. The next run of the loop lists again.
func (r *runner[Obj]) stopListing() {
	if r.resync.Stop() {
		r.shared.pruner.Abandon()
	}
}

// takeListing ends a listing of the target, and begins what follows from it.
func (r *runner[Obj]) takeListing(round *inspect.Round) {
	p, s := r.shared.pruner, r.resync
	switch record, adopts, ended, err := s.Take(r.life.now()); {
	case err != nil:
		r.resynced(round, &resync.Result{Record: record, Err: err})
	case ended:
		p.NoteEnd(r.life.now(), nil, r.pruning())
		if adopts {
			p.RaiseGate(r.shared.rows.Revision())
		} else {
			p.Request(false)
		}
		r.publishState()
	}
	if found, ok := s.Finish(r.observer.Revision(), p.IsApproved(), r.core.AddOrphan); ok {
		p.EndApproval()
		if found.Repairs {
			r.shared.refresher.WalkRepairs(refresh.WalkOver(func(row refresh.Row[Obj]) bool { return s.Wants(row.Object, row.Revision) }))
		}
		r.resynced(round, &found)
	} else if p.Ready() && s.Compares() {
		r.finishAdoption(round)
	}
}

// finishAdoption ends the comparison with the first listing, when each row up to the gate was attempted. Rows that were
// written meanwhile have moved past the gate. Those that were pending at the gate are in the snapshot that main reads now,
// which ends before the revision of the table: so the gate is raised once, however fast rows are written.
func (r *runner[Obj]) finishAdoption(round *inspect.Round) {
	upTo := r.shared.rows.Revision()
	if r.core.Index.Attempted(r.observer.Revision()) < upTo && r.resync.Prolong() {
		r.shared.pruner.RaiseGate(upTo)
	} else if record, ok := r.resync.FinishAdoption(); ok {
		round.Resync, r.lastResync = &record, &record
		r.shared.pruner.Request(false)
	}
}

// resynced records the result of a listing.
func (r *runner[Obj]) resynced(round *inspect.Round, found *resync.Result) {
	record := &found.Record
	record.Error = r.pruned(record.Took, found.Err)
	if n := record.Different + record.Missing + record.Orphan; n > 0 && !record.Adopts && found.Err == nil {
		r.shared.setup.log.Info("resync", "found", record.Summary(), "first", record.Differences)
	}
	round.Resync, r.lastResync = record, record
}

// repair gives the core rows to repair.
func (r *runner[Obj]) repair(batch []refresh.Row[Obj]) {
	before := r.core.Index.Figures().Refreshing
	for i := range batch {
		r.core.Repair(r.life.now(), batch[i].Object, batch[i].Revision)
	}
	r.this.repeated += r.core.Index.Figures().Refreshing - before
}

// noteEnded tells the resync which operations have ended.
func (r *runner[Obj]) noteEnded() {
	notes := r.resync.Notes()
	for i := range r.ops {
		op := &r.ops[i]
		if repair := op.Turn.Cause == core.CauseRepair || op.Turn.Cause == core.CauseOrphan; repair || notes {
			r.resync.NoteAttempt(resync.Attempt[Obj]{
				Row: op.Row, Adopted: op.Turn.Cause == core.CauseAdopted, Deleted: op.Deleted, Repair: repair, Succeeded: op.Outcome.Succeeded(),
			})
		}
	}
}
