// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// take makes the next operation in op, which is zero. It returns false if none may begin now.
func (r *runner[Obj]) take(round *inspect.Round, txn statedb.ReadTxn, op *core.Operation[Obj]) bool {
	for r.core.Next(op, r.observer) {
		if !r.resolve(txn, op) {
			*op = core.Operation[Obj]{}
			continue
		}
		if !r.looks(op) {
			r.leave(op)
			*op = core.Operation[Obj]{}
			continue
		}
		if r.adopts(op) {
			op.Turn.Cause = core.CauseAdopted
		} else if op.FoundRight() {
			return true
		} else if !r.set.admitOne() {
			r.recall(op)
			round.Returned++
			*op = core.Operation[Obj]{}
			return false
		} else if op.Turn.Cause == core.CauseVerify {
			// It is no work before the target is found wrong, and no probe.
			return true
		} else if r.breaker.Open {
			op.Turn.Cause = core.CauseProbe
		}
		if !op.Untried() && r.shared.needs.Any() {
			// What an earlier version has waited for says nothing about this one.
			op.Waits = r.shared.needs.WaitsOf(string(r.shared.rows.Key(op.Row)))
		}
		if op.Turn.Waited {
			round.Waited++
		} else {
			round.Changes++
		}
		if op.Turn.Cause == core.CauseRefresh || op.Turn.Cause == core.CauseRepair {
			round.Refreshes++
		}
		return true
	}
	return false
}

// adopts reports whether an operation need not be called, since the target has what it would make. A refresh is asked for
// although it has. The retry of an operation that was given up at its deadline is called, since the target may still carry
// the earlier call out, after the listing.
func (r *runner[Obj]) adopts(op *core.Operation[Obj]) bool {
	refresh := op.Turn.Cause == core.CauseVerify || op.Lane() == core.Refresh || r.shared.rows.Asked(op.Row).Kind == status.KindRefreshing
	return !op.Deleted && !refresh && op.Failures == 0 && r.resync.Adopts(op.Row)
}

// takeNext appends the next operation to the operations of the pass. It returns false if none may begin now.
func (r *runner[Obj]) takeNext(round *inspect.Round, txn statedb.ReadTxn) bool {
	n := len(r.ops)
	if n == cap(r.ops) {
		r.executor.Leave()
		r.ops = slices.Grow(r.ops, 1)
	}
	// The memory of the operations is cleared when they are forgotten.
	r.ops = r.ops[:n+1]
	if !r.take(round, txn, &r.ops[n]) {
		r.ops = r.ops[:n]
		return false
	}
	if !r.this.budget.workers && r.ops[n].HasEntry() {
		r.observer.NoteOther()
	}
	return true
}

// runTurn runs operations one at a time until the turn is over.
func (r *runner[Obj]) runTurn(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn) {
	x, reads := r.executor, r.observer.Reads()
	x.BeginTurn()
	defer x.EndTurn()
	for ctx.Err() == nil && x.Took() < r.pace.TurnLength() && r.takeNext(round, txn) {
		if now := r.observer.Reads(); now != reads {
			x.Resume()
			reads = now
		}
		if len(r.ops) == 1 {
			r.reports.health.Begin(r.life.now())
		}
		op := &r.ops[len(r.ops)-1]
		var further func() bool
		if op.Turn.Looks { // else there is one call, and a method value would be allocated for nothing
			further = r.further
		}
		x.RunNext(ctx, txn, op, further)
	}
}

// further notes that the loop begins another call of an operation.
func (r *runner[Obj]) further() bool {
	r.reports.health.Begin(r.life.now())
	return true
}

// runBatch runs operations in one batch.
func (r *runner[Obj]) runBatch(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn) {
	for r.takeNext(round, txn) {
	}
	if len(r.ops) > 0 {
		r.reports.health.Begin(r.life.now())
		r.executor.Run(ctx, txn, r.ops, r.further)
	}
}

// endRun completes the operations that ran in line.
func (r *runner[Obj]) endRun(ctx context.Context, round *inspect.Round) {
	r.reports.health.End()
	if len(r.ops) > 0 {
		forgetCancelled(ctx, r.ops)
		r.complete(round)
		r.pace.Committed(round.CommitTook)
	}
}

// startOperations hands operations to workers. The operations of the pass are those that workers have finished.
func (r *runner[Obj]) startOperations(ctx context.Context, round *inspect.Round, txn statedb.ReadTxn) {
	finished := len(r.ops)
	for r.takeNext(round, txn) {
	}
	started := r.ops[finished:]
	r.workers.Start(ctx, txn, started)
	clear(started)
	r.ops = r.ops[:finished]
}

// resolve sets the row of an operation and when its change was wanted. If the row may have changed since it was
// observed, it is looked up in the transaction of the round. If the operation is not to be run, resolve settles
// it and returns false.
func (r *runner[Obj]) resolve(txn statedb.ReadTxn, op *core.Operation[Obj]) bool {
	row, revision, rows := op.Obj, op.Revision, r.shared.rows
	s := rows.Asked(row)
	if err := rows.Unwritable(row); err != nil && !op.Deleted {
		failure := err.Error()
		r.settleUnrun(op, core.Outcome[Obj]{
			Kind: core.FailedForGood, Text: &failure, Object: row, NewRevision: revision, Wanted: r.this.began,
		}, 0)
		return false
	}
	if r.observer.Stale(op) {
		var kind core.Kind
		if row, revision, kind = r.current(txn, op); kind != core.Done {
			if !op.Deleted {
				revision = 0
			}
			r.settleUnrun(op, core.Outcome[Obj]{Kind: kind}, revision)
			return false
		}
		if revision != op.Revision {
			s = rows.Asked(row)
			if s.IsPendingOrRefreshing() && !r.core.Renew(op, row, revision, r.observer.Since(s, revision)) {
				r.unblock(op.Obj)
				return false
			}
		}
	}
	revision = r.observer.CallRevision(revision, op.Deleted, txn)
	op.Row, op.Outcome.Object, op.RowRevision, op.Run.Err = row, row, revision, execute.ErrNotRun
	if status.Kind(op.Outcome.RowKind) == status.KindUnset && s.Error != nil {
		// The failure of an earlier run: the clone gets its text removed.
		op.Outcome.RowKind = uint8(s.Kind)
	}
	if op.Lane() == core.Refresh && s.Kind == status.KindDone {
		// Nothing marks the row for a refresh. Update of a program of the peer gets a clone that says so.
		op.Outcome.RowKind = uint8(status.KindRefreshing)
	}
	if op.Turn.Cause == core.CauseChange && r.observer.CatchingUp() && s.Kind == status.KindRefreshing {
		// The lane of the catch-up cursor does not distinguish refreshes.
		op.Turn.Cause = core.CauseRefresh
	}
	if op.Outcome.Wanted == 0 && !op.Deleted && s.Kind == status.KindPending && op.Since() > 0 {
		// A reconciled object that is run again has no change, even if its row has no status. 0 means that the
		// time is unknown; a change from before the start has a negative time.
		at := s.UpdatedAt
		if at.IsZero() {
			at = r.shared.ledger.Written(row, revision)
		}
		op.Outcome.Wanted = cmp.Or(at.Sub(r.life.started), 1)
	}
	return true
}

// recall takes back an operation that was not run.
func (r *runner[Obj]) recall(op *core.Operation[Obj]) {
	r.putBack(op, r.core.Recall)
	r.shared.needs.NoteRecall(op.Obj)
}

// putBack takes back an operation, as Recall or Return of the core.
func (r *runner[Obj]) putBack(op *core.Operation[Obj], back func(time.Duration, *core.Operation[Obj]) (forgotten bool)) {
	if back(r.life.now(), op) {
		r.unblock(op.Obj)
		r.shared.noteChange(op.Obj, 0)
	}
}

// leave takes back an operation that has looked at the target, or could not, and leaves its object as it is.
func (r *runner[Obj]) leave(op *core.Operation[Obj]) {
	if op.Returns() {
		r.putBack(op, r.core.Return)
		return
	}
	out := core.Outcome[Obj]{Object: op.Row, NewRevision: op.RowRevision}
	if op.Polls() {
		out.Kind, out.Backoff = core.DoneAgain, true
	}
	r.settleUnrun(op, out, 0)
}

// settleUnrun settles an operation that is not run. row is as for noteChange.
func (r *runner[Obj]) settleUnrun(op *core.Operation[Obj], out core.Outcome[Obj], row statedb.Revision) {
	r.core.Settle(r.life.now(), op, out)
	r.unblock(op.Obj)
	r.shared.noteChange(op.Obj, row)
}

// current looks up the object of an operation. If the kind is Done, the returned version is the one to
// run; otherwise the operation is not run, and the kind is the result to settle it with. If it is a deletion, the
// object is back.
func (r *runner[Obj]) current(txn statedb.ReadTxn, op *core.Operation[Obj]) (Obj, statedb.Revision, core.Kind) {
	row, revision, found := r.shared.rows.Get(txn, op.Obj)
	if found && revision != op.Revision && r.observer.Applied(row, revision) {
		return row, revision, core.Void
	}
	if !found {
		if _, err := r.shared.rows.KeyOf(op.Obj); op.Deleted || err != nil {
			// It is deleted, or the write of its outcome shows that no look-up finds its key.
			return op.Obj, op.Revision, core.Done
		}
		// The observer has still to read the deletion.
		return op.Obj, op.Revision, core.Superseded
	}
	switch s := r.shared.rows.Asked(row); {
	case s.IsPendingOrRefreshing():
		return row, revision, core.Done
	case op.Deleted, op.Untried(), s.Kind == status.KindUnset:
		// The object is back, reconciled, or without a status.
		return row, revision, core.Void
	}
	return row, revision, core.Done
}

// newObserver returns the observer of the table of a loop, with what it reports.
func (r *runner[Obj]) newObserver(waits observe.Waits) *observe.Observer[Obj] {
	s := r.shared
	return observe.New(observe.Config[Obj]{
		Rows: s.rows, Core: r.core, Waits: waits,
		Hooks: observe.Hooks[Obj]{
			FirstUnset: func(row Obj, revision statedb.Revision) {
				s.setup.log.Warn("object has no status and is left alone; set its status to Pending to have it reconciled (logged once)",
					"table", s.rows.Table.Name(), "key", s.rows.Key(row), "revision", revision)
			},
			Seen: s.needs.NoteChange,
			Deletion: func(obj Obj, back statedb.Revision) {
				if back > 0 {
					r.fights.Forget(obj)
				}
				// It may be paused: then it counts as attempted, and no operation ends the waits for it.
				s.noteChange(obj, back)
			},
			Forgotten: func(obj Obj, revision statedb.Revision) {
				r.fights.Forget(obj)
				r.unblock(obj)
				s.noteChange(obj, revision)
			},
		},
	})
}

// noteChange tells those who wait for an object that its row, or what the core has of its key, has changed. row is the
// revision of a row that has taken the place of a deletion; 0 if none has.
func (s *shared[Obj]) noteChange(obj Obj, row statedb.Revision) {
	s.keyWaits.NoteChange(obj, row)
	s.needs.NoteChange(obj)
}

// target returns what is known of the speed of the target.
func (s *Settings) target(workers bool) observe.Target {
	t := observe.Target{Workers: 1, Least: s.leastTime()}
	if workers {
		t.Workers = s.Concurrency
	}
	return t
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
