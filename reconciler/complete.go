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
	r.workers.Overdue(r.this.began)
	if r.ops = r.workers.Finished(r.ops); len(r.ops) > 0 {
		r.observer.NoteOther()
		forgetCancelled(ctx, r.ops)
		r.complete(round)
	}
	if r.workers.IsLate() {
		r.takeBackQueued()
	}
}

// complete processes the results of the pass's operations: it returns those that were not run to their queue,
// writes the outcomes, and reports to the core, the waits for keys and the resync. In the rows,
// outcomes are written nowhere else; beside the table writeOutcomes writes them, at the end of the pass.
func (r *runner[Obj]) complete(round *inspect.Round) {
	r.giveBack(round)
	for i := range r.ops {
		r.observer.NoteTook(r.ops[i].Run.Share)
	}
	r.commit(round)
	open := r.breaker.Open
	r.settle()
	if !open && r.breaker.Open {
		r.takeBackQueued()
	}
	if s := r.shared; s.keyWaits.Waiting() > 0 || s.needs.IsNeeded() {
		for i := range r.ops {
			op := &r.ops[i]
			applied := op.Outcome.Succeeded() && !op.Effect.Discounted
			s.keyWaits.NoteOperation(op.Row, op.RowRevision, op.Deleted, applied)
			s.needs.NoteOperation(op.Row, op.RowRevision, op.Deleted, applied)
		}
	}
	r.resync.Note(r.ops)
}

// forgetCancelled counts operations that the end of the loop has cancelled as not run: that is no failure
// of their objects, and the next run begins with them.
func forgetCancelled[Obj any](ctx context.Context, ops []core.Operation[Obj]) {
	if ctx.Err() == nil {
		return
	}
	for i := range ops {
		if errors.Is(ops[i].Run.Err, context.Canceled) {
			ops[i].Run.Err = execute.ErrNotRun
		}
	}
}

// giveBack removes the operations that were not run, and returns them to where they came from. It also removes those that
// have only looked, and found nothing to do.
func (r *runner[Obj]) giveBack(round *inspect.Round) {
	settled := false
	for i := len(r.ops) - 1; i >= 0; i-- {
		op := &r.ops[i]
		if op.Run.Err != execute.ErrNotRun {
			r.fights.End(r.life.now(), op)
		}
		if op.Run.Err == execute.ErrNotRun {
			r.recall(op)
			round.Returned++
			settled = true
		} else if r.settleLook(op) {
			op.Run.Err = execute.ErrNotRun
			settled = true
		}
	}
	if settled {
		r.ops = slices.DeleteFunc(r.ops, func(op core.Operation[Obj]) bool { return op.Run.Err == execute.ErrNotRun })
	}
}

// commit decides which outcomes are news, and writes these if the rows carry the status.
func (r *runner[Obj]) commit(round *inspect.Round) {
	c := r.shared.ledger.Write(r.ops, r.set.MaxRetries)
	round.Written += c.Written
	round.Lost += c.Lost
	round.Conflicts += c.Conflicts
	round.CommitTook += c.Took
	r.observer.NoteWritten(c.Revision, c.Written)
}

// writeOutcomes writes the outcomes that belong beside the table, at the end of a pass.
func (r *runner[Obj]) writeOutcomes(round *inspect.Round) {
	upTo, ahead := r.observer.Read()
	c := r.shared.ledger.Publish(upTo, ahead, r.shared.needs.AnySuspected())
	round.Written += c.Written
	round.CommitTook += c.Took
}

// settle reports the outcomes to the core.
func (r *runner[Obj]) settle() {
	now, held := r.life.now(), r.breaker.Open
	for i := range r.ops {
		op := &r.ops[i]
		if r.set.BreakerFailures > 0 {
			r.countForBreaker(now, op, held)
		}
		if op.Outcome.Kind == core.Done && !op.HasEntry() {
			continue
		}
		if !op.Deleted && op.Outcome.Succeeded() {
			r.observer.NoteApplied(op.Row, op.RowRevision)
		}
		if op.Outcome.Kind == core.BlockedOn && !op.Outcome.Lost {
			op.Outcome.Delay = r.block(op)
		} else {
			r.unblock(op.Row)
		}
		if s := r.shared.rows.Asked(op.Row); s.IsPendingOrRefreshing() {
			// It asked for the work: the key's next operation gets its kind.
			op.Outcome.RowKind = uint8(s.Kind)
		}
		r.core.Settle(now, op, op.Outcome)
	}
}

// countForBreaker counts an outcome for the breaker. What the first listing has shown does not count: the
// target was not called.
// held is as for closeBreaker.
func (r *runner[Obj]) countForBreaker(now time.Duration, op *core.Operation[Obj], held bool) {
	out := &op.Outcome
	switch {
	case op.Turn.Cause == core.CauseAdopted && op.Run.Look == nil:
	case out.Succeeded(), op.Run.Worked:
		r.closeBreaker(now, held)
	case out.Kind == core.Failed && !out.Final, out.GivenUp:
		r.breaker.Fail(now, string(r.shared.rows.Key(op.Row)), *out.Text, r.set.BreakerFailures)
	default:
		r.breaker.Ignore(now)
	}
}

// closeBreaker closes the breaker if it is open. If it has held operations back, all keys are due that wait for their
// backoff: a breaker that opened in the same pass has not.
func (r *runner[Obj]) closeBreaker(now time.Duration, held bool) {
	if r.breaker.Succeed() && held {
		r.core.EndBackoffs(now)
	}
}

// block makes a key wait for the channels of its outcome, and returns the delay of its recheck. A
// channel that is closed already releases it at once, because the event may have happened while the
// operation ran. A key that had waited before then runs after a short delay, so that an operation
// that always returns a closed channel does not spin.
func (r *runner[Obj]) block(op *core.Operation[Obj]) time.Duration {
	says, key := outcome.Of(op.Run.Err), string(r.shared.rows.Key(op.Row))
	channels := says.Watch
	if released := r.shared.needs.Block(op.Row, op.Waits, says.Needs); len(released) > 0 {
		channels = append(released, channels...)
	}
	if op.Turn.Waited && watch.AnyClosed(channels) {
		r.blocked.Remove(key)
		return pace.Gather
	}
	r.blocked.Set(key, channels)
	return backoff.Exponential{Jitter: r.set.Jitter, Fraction: op.Outcome.Jitter, Rand: r.rand}.Spread(r.set.BlockedRecheck)
}

// unblock makes the key of an object wait for nothing.
func (r *runner[Obj]) unblock(obj Obj) {
	r.shared.needs.Unblock(obj)
	if r.blocked.Any() {
		r.blocked.Remove(string(r.shared.rows.Key(obj)))
	}
}

// release makes the keys due whose channels have closed.
func (r *runner[Obj]) release() {
	now := r.life.now()
	r.blocked.Release(func(key string) { r.core.Release(key, now) })
}

// takeBackQueued takes back the jobs that workers have not begun.
func (r *runner[Obj]) takeBackQueued() {
	queued := r.workers.Recall()
	for i := range slices.Backward(queued) {
		r.recall(&queued[i])
	}
}
