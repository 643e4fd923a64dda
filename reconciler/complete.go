// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// completeFinished completes all jobs that workers have finished, in one transaction, and marks those
// that are stuck.
func (r *runner[Obj]) completeFinished(ctx context.Context, round *inspect.Round) {
	if !r.workers.IsBusy() {
		return
	}
	r.workers.Overdue(r.began, func(op *core.Operation[Obj]) { r.core.GiveUpProbe(r.began, op) })
	if r.ops = r.workers.Finished(r.ops); len(r.ops) > 0 {
		r.observer.NoteOther()
		forgetCancelled(ctx, r.ops)
		r.complete(round)
	}
}

// complete processes the results of the pass's operations: it returns those that were not run to their queue,
// writes the outcomes, and reports to the core, the waits for keys and the refresher. Outcomes are written
// nowhere else, for work in line and on workers alike.
func (r *runner[Obj]) complete(round *inspect.Round) {
	r.giveBack(round)
	for i := range r.ops {
		r.observer.NoteTook(r.ops[i].Share)
	}
	r.commit(round)
	open := r.core.BreakerOpen()
	r.settle()
	if !open && r.core.BreakerOpen() {
		r.takeBackQueued()
	}
	if r.keyWaits.Waiting() > 0 {
		for i := range r.ops {
			op := &r.ops[i]
			r.keyWaits.NoteOperation(op.Row, op.RowRevision, op.Deleted, op.Succeeded() && !op.Void)
		}
	}
	r.noteRefreshCalls()
}

// forgetCancelled counts operations that the end of the loop has cancelled as not run: that is no failure
// of their objects, and the next run begins with them.
func forgetCancelled[Obj any](ctx context.Context, ops []core.Operation[Obj]) {
	if ctx.Err() == nil {
		return
	}
	for i := range ops {
		if errors.Is(ops[i].Err, context.Canceled) {
			ops[i].Err = execute.ErrNotRun
		}
	}
}

// giveBack removes the operations that were not run, and returns them to where they came from.
func (r *runner[Obj]) giveBack(round *inspect.Round) {
	returned := round.Returned
	for i := len(r.ops) - 1; i >= 0; i-- {
		if op := &r.ops[i]; op.Err == execute.ErrNotRun {
			r.core.Recall(r.now(), op)
			round.Returned++
		}
	}
	if round.Returned > returned {
		r.ops = slices.DeleteFunc(r.ops, func(op core.Operation[Obj]) bool { return op.Err == execute.ErrNotRun })
	}
}

// commit writes the outcomes that differ from what the rows have.
func (r *runner[Obj]) commit(round *inspect.Round) {
	c := r.ledger.Write(r.ops, r.set.MaxRetries)
	round.Written += c.Written
	round.Lost += c.Lost
	round.Conflicts += c.Conflicts
	round.CommitTook += c.Took
	r.observer.NoteWritten(c.Revision, c.Written)
}

// writeOutcomes writes the outcomes that belong beside the table, at the end of a pass.
func (r *runner[Obj]) writeOutcomes(round *inspect.Round) {
	upTo, ahead := r.observer.Read()
	c := r.ledger.Publish(upTo, ahead)
	round.Written += c.Written
	round.CommitTook += c.Took
}

// settle reports the outcomes to the core.
func (r *runner[Obj]) settle() {
	now := r.now()
	for i := range r.ops {
		op := &r.ops[i]
		r.noteWanted(op, now)
		if op.Kind == core.Done && !op.HasEntry() && r.opts.breaker == nil {
			continue
		}
		if !op.Deleted && op.Succeeded() {
			r.observer.NoteApplied(op.Row, op.RowRevision)
		}
		if op.Kind == core.BlockedOn && !op.Lost {
			op.Delay = r.block(op)
		} else {
			r.unblock(op.Row)
		}
		if s := r.rows.Asked(op.Row); s.IsPendingOrRefreshing() {
			// It asked for the work: the key's next operation gets its kind.
			op.Mark = uint8(s.Kind)
		}
		r.core.Settle(now, op, op.Outcome)
	}
}

// noteWanted sets whether an operation was for a change, and since when it was wanted. Work without a change,
// such as a refresh, counts as wanted since now. So does a deletion that was read in this round, from the
// start of the pass.
func (r *runner[Obj]) noteWanted(op *core.Operation[Obj], now time.Duration) {
	op.Change = op.Wanted != 0 || op.Deleted
	if op.Wanted != 0 {
		return
	}
	op.Wanted = now
	if op.Deleted {
		op.Wanted = r.began
	}
}

// block makes a key wait for the channels of its outcome, and returns the delay of its recheck. A
// channel that is closed already releases it at once, because the event may have happened while the
// operation ran. A key that had waited before then runs after a short delay, so that an operation
// that always returns a closed channel does not spin.
func (r *runner[Obj]) block(op *core.Operation[Obj]) time.Duration {
	channels := outcome.Of(op.Err).Watch
	if op.Again && watch.AnyClosed(channels) {
		r.unblock(op.Row)
		return pace.Gather
	}
	r.blocked.Set(string(r.rows.Key(op.Row)), channels)
	return backoff.Exponential{Jitter: r.set.Jitter, Fraction: op.Jitter, Rand: r.rand}.Spread(r.set.BlockedRecheck)
}

// unblock makes the key of an object wait for no channel.
func (r *runner[Obj]) unblock(obj Obj) {
	if r.blocked.Any() {
		r.blocked.Remove(string(r.rows.Key(obj)))
	}
}

// takeBackQueued takes back the jobs that workers have not begun.
func (r *runner[Obj]) takeBackQueued() {
	queued := r.workers.Recall()
	for i := range slices.Backward(queued) {
		r.core.Recall(r.now(), &queued[i])
	}
}

// forgetOperations drops the operations of the pass, so that they keep no object in memory.
func (r *runner[Obj]) forgetOperations() {
	clear(r.ops)
	r.ops = r.ops[:0]
	r.workers.Forget()
}
