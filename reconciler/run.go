// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// runPlan runs the operations of a plan in line, and completes them. It returns how many it ran.
func (r *runner[Obj]) runPlan(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (ran int) {
	b := &r.batch
	b.items = plan
	for i := range plan {
		var t execute.Task[Obj]
		var a ledger.Attempt[Obj]
		if !r.resolve(txn, &plan[i], &t, &a) {
			continue
		}
		b.add(i, &t, &a)
		if plan[i].HasEntry() {
			r.observer.NoteOther()
		}
	}
	planned := len(b.tasks)
	if planned == 0 {
		return 0
	}
	permitted, from := r.permitted(planned), r.now()
	r.executor.Turn = r.pace.TurnLength()
	r.doing = doingBatch
	r.health.Begin(from)
	r.executor.Run(ctx, txn, b.tasks[:permitted], r.beginCall)
	r.health.End()
	r.doing = doingNothing
	took := r.now() - from
	forgetCancelled(ctx, b.tasks)
	r.complete(round, b)
	if ran = len(b.tasks); !r.execute.IsBatched() {
		r.pace.RanTurn(ran, planned-ran, took)
	}
	r.pace.Committed(round.CommitTook)
	return ran
}

// beginCall records that the loop begins another call of a batch. It always returns true.
func (r *runner[Obj]) beginCall() bool {
	r.health.Begin(r.now())
	return true
}

// permitted returns how many of a number of tasks OperationLimiter allows. For single operations that
// is all: the executor asks for each of them before its call.
func (r *runner[Obj]) permitted(tasks int) int {
	if r.set.OperationLimiter == nil || !r.execute.IsBatched() {
		return tasks
	}
	for n := range tasks {
		if !r.admitOne() {
			return n
		}
	}
	return tasks
}

// startPlan hands a plan to workers: each item as a job of its own, or all as one batch. It returns
// how many operations it started.
func (r *runner[Obj]) startPlan(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (started int) {
	snapshot, batched := r.observer.Snapshots(), r.execute.IsBatched()
	permitted := len(plan)
	for i := range plan {
		var t execute.Task[Obj]
		var a ledger.Attempt[Obj]
		if !r.resolve(txn, &plan[i], &t, &a) {
			continue
		}
		if !r.admitOne() {
			permitted = i
			break
		}
		r.core.Launch(&plan[i])
		r.workers.add(txn, snapshot, batched, &plan[i], &t, &a)
		started++
	}
	for i := len(plan) - 1; i >= permitted; i-- {
		r.core.PutBack(&plan[i])
		round.Returned++
	}
	r.workers.start(ctx)
	return started
}

// resolve makes a task of an item, and stores it in t and a, which have to be zero. If the row may
// have changed since the item was observed, it is looked up in the transaction of the round. If the
// item is not to be run, resolve settles it and returns false.
func (r *runner[Obj]) resolve(txn statedb.ReadTxn, item *core.Item[Obj], t *execute.Task[Obj], a *ledger.Attempt[Obj]) bool {
	object, revision := item.Obj, item.Revision
	s := r.rows.Asked(object)
	if err := r.unwritable(item); err != nil {
		failure := err.Error()
		r.settleUnrun(item, core.Outcome[Obj]{Kind: core.FailedForGood, Failure: &failure, Obj: object, Revision: revision, Wanted: r.began})
		return false
	}
	if r.observer.Stale(item) {
		var kind core.Kind
		if object, revision, kind = r.current(txn, item); kind != core.Done {
			r.settleUnrun(item, core.Outcome[Obj]{Kind: kind})
			return false
		}
		if revision != item.Revision {
			s = r.rows.Asked(object)
			if s.IsPendingOrRefreshing() && !r.core.Renew(item, object, revision, r.marks.Since(s.ID, revision, true)) {
				r.unblock(item.Obj)
				return false
			}
		}
	}
	revision = r.observer.RevisionFor(revision, item.Deleted, txn)
	r.observer.NoteRevision(revision)
	t.Object, t.Revision, t.Deleted, t.Asked, t.Err = object, revision, item.Deleted, status.Kind(item.Mark), execute.ErrNotRun
	t.Row, a.Again, a.Cause = object, item.Again, item.Cause()
	if t.Asked == status.KindUnset && s.Error != nil {
		// The failure of an earlier run: the clone gets its text removed.
		t.Asked = s.Kind
	}
	if a.Cause == core.CauseChange && r.observer.CatchingUp() && s.Kind == status.KindRefreshing {
		// The lane of the catch-up cursor does not distinguish refreshes.
		a.Cause = core.CauseRefresh
	}
	t.Attempt, a.Tries, a.Wanted = int32(item.Attempt()+1), int32(item.Tries()), item.Wanted()
	if a.Wanted == 0 && !t.Deleted && s.Kind == status.KindPending && item.Since() > 0 {
		// A reconciled object that is run again has no change, also if its row has no status. 0 means that the
		// time is unknown; a change from before the start has a negative time.
		a.Wanted = cmp.Or(r.ledger.Wanted(s, revision).Sub(r.started), 1)
	}
	return true
}

// unwritable returns an error if no outcome of an item could be written, nor the row be replaced or deleted by
// the program. In the rows, the write shows it, and a check before each operation would cost an allocation.
func (r *runner[Obj]) unwritable(item *core.Item[Obj]) error {
	if item.Deleted || !r.beside {
		return nil
	}
	_, err := r.rows.KeyOf(item.Obj)
	return err
}

// settleUnrun settles an item that is not run.
func (r *runner[Obj]) settleUnrun(item *core.Item[Obj], out core.Outcome[Obj]) {
	r.core.Settle(r.now(), item, out)
	r.unblock(item.Obj)
	r.keyWaits.NoteChange(item.Obj)
}

// current looks up the object of an item. If the kind is Done, the returned version is the one to
// run; otherwise the item is not run, and the kind is the result to settle it with.
func (r *runner[Obj]) current(txn statedb.ReadTxn, item *core.Item[Obj]) (Obj, statedb.Revision, core.Kind) {
	object, revision, found := r.rows.Get(txn, item.Obj)
	if found && revision != item.Revision && r.observer.Applied(object, revision) {
		return object, revision, core.Void
	}
	if !found {
		if item.Deleted || r.rows.Has(txn, item.Revision) {
			// It is deleted, or this is the version of a row that no look-up finds.
			return item.Obj, item.Revision, core.Done
		}
		// The observer has still to read the deletion.
		return object, revision, core.Superseded
	}
	switch s := r.rows.Asked(object); {
	case s.IsPendingOrRefreshing():
		return object, revision, core.Done
	case item.Deleted, item.Untried(), s.Kind == status.KindUnset:
		// The object is back, reconciled, or without a status.
		return object, revision, core.Void
	}
	return object, revision, core.Done
}

// newObserver returns the observer of the loop's table. The core has to exist.
func (r *runner[Obj]) newObserver() *observe.Observer[Obj] {
	return observe.New(observe.Config[Obj]{
		Rows: r.rows, Core: r.core, Waits: r.marks,
		Hooks: observe.Hooks[Obj]{
			FirstUnset: func(row Obj, revision statedb.Revision) {
				r.log.Warn("object has no status and is left alone; set its status to Pending to have it reconciled (logged once)",
					"table", r.rows.Table.Name(), "key", r.rows.Key(row), "revision", revision)
			},
			Deletion: func(obj Obj) {
				r.pruner.NoteDeletion(obj)
				// It may be paused: then it counts as attempted, and no operation ends the waits for it.
				r.keyWaits.NoteChange(obj)
			},
			Forgotten: func(obj Obj) {
				r.unblock(obj)
				r.keyWaits.NoteChange(obj)
			},
		},
	})
}

// followUp updates the catch-up cursor, and begins one if it is needed.
func (r *runner[Obj]) followUp(now time.Duration) {
	target := observe.Target{Workers: 1, Least: r.set.leastTime()}
	if r.budget.workers {
		target.Workers = r.set.Concurrency
	}
	r.observer.UpdateCatchUp(now, target)
}

// leastTime returns the time for an object at the rate of the limiters; zero if there is no limit.
func (s *Settings) leastTime() (least time.Duration) {
	if l := s.OperationLimiter; l != nil && l.Limit() > 0 {
		least = inSeconds(1 / float64(l.Limit()))
	}
	if l := s.RoundLimiter; l != nil && l.Limit() > 0 {
		least = max(least, inSeconds(1/float64(l.Limit())/float64(s.RoundSize)))
	}
	return least
}
