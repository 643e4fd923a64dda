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
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// completeFinished completes all jobs that workers have finished, in one transaction, and marks those
// that are stuck.
func (r *runner[Obj]) completeFinished(ctx context.Context, round *inspect.Round) {
	if !r.workers.IsBusy() {
		return
	}
	r.workers.Overdue(func(d *load[Obj]) {
		for i := range d.items {
			r.core.GiveUpProbe(r.began, &d.items[i])
		}
	})
	if r.workers.take(&r.batch, r.observer.Snapshots()) {
		r.observer.NoteOther()
	}
	if len(r.batch.tasks) > 0 {
		forgetCancelled(ctx, r.batch.tasks)
		r.complete(round, &r.batch)
	}
}

// complete processes the results of a batch: it returns what was not run to its queue, writes the
// outcomes, and reports to the core, the waits for keys and the refresher. Outcomes are written
// nowhere else, for work in line and on workers alike.
func (r *runner[Obj]) complete(round *inspect.Round, b *batch[Obj]) {
	r.giveBack(round, b)
	if r.observer.Behind() {
		for i := range b.tasks {
			r.observer.NoteTook(b.tasks[i].Share)
		}
	}
	r.commit(round, b)
	open := r.core.BreakerOpen()
	r.settle(b)
	if !open && r.core.BreakerOpen() {
		r.takeBackQueued()
	}
	if r.keyWaits.Waiting() > 0 {
		for i := range b.tasks {
			t, a := &b.tasks[i], &b.attempts[i]
			applied := (a.Kind == core.Done || a.Kind == core.DoneAgain) && !a.Void
			r.keyWaits.NoteOperation(t.Row, t.Revision, t.Deleted, applied)
		}
	}
	r.noteRefreshCalls(b)
}

// forgetCancelled counts operations that the end of the loop has cancelled as not run: that is no failure
// of their objects, and the next run begins with them.
func forgetCancelled[Obj any](ctx context.Context, tasks []execute.Task[Obj]) {
	if ctx.Err() == nil {
		return
	}
	for i := range tasks {
		if errors.Is(tasks[i].Err, context.Canceled) {
			tasks[i].Err = execute.ErrNotRun
		}
	}
}

// giveBack removes from a batch the tasks that were not run, and returns their items to where they
// came from.
func (r *runner[Obj]) giveBack(round *inspect.Round, b *batch[Obj]) {
	n := len(b.tasks)
	for i := len(b.tasks) - 1; i >= 0; i-- {
		if b.tasks[i].Err != execute.ErrNotRun {
			continue
		}
		r.putBack(&b.items[b.attempts[i].Item])
		round.Returned++
		n--
	}
	if n == len(b.tasks) {
		return
	}
	at := 0
	for i := range b.tasks {
		if b.tasks[i].Err != execute.ErrNotRun {
			b.tasks[at], b.attempts[at] = b.tasks[i], b.attempts[i]
			at++
		}
	}
	clear(b.tasks[n:])
	clear(b.attempts[n:])
	b.tasks, b.attempts = b.tasks[:n], b.attempts[:n]
}

// putBack returns an item that was not run to where it came from. Several items have to be put back
// in reverse order.
func (r *runner[Obj]) putBack(item *core.Item[Obj]) {
	if item.Launched() {
		r.core.Recall(r.now(), item)
	} else {
		r.observer.TakeBack(item, r.began)
	}
}

// commit writes the outcomes of a batch that differ from what the rows have.
func (r *runner[Obj]) commit(round *inspect.Round, b *batch[Obj]) {
	c := r.ledger.Write(b.tasks, b.attempts, ledger.Options{MaxRetries: r.set.MaxRetries, Revisions: r.budget.workers})
	round.Written += c.Written
	round.Lost += c.Lost
	round.Conflicts += c.Conflicts
	round.CommitTook += c.Took
	r.observer.NoteWritten(c.Revision, c.Written)
}

// asked returns the kind of status that asked for an attempt. The next attempt gets it.
func (r *runner[Obj]) asked(t *execute.Task[Obj]) status.Kind {
	if s := r.rows.Asked(t.Row); s.IsPendingOrRefreshing() {
		return s.Kind
	}
	return t.Asked
}

// settle reports the results of the tasks to the core.
func (r *runner[Obj]) settle(b *batch[Obj]) {
	now := r.now()
	for i := range b.attempts {
		t, a := &b.tasks[i], &b.attempts[i]
		item := &b.items[a.Item]
		r.noteWanted(a, t, now)
		a.Void = item.Void()
		if a.Kind == core.Done && !item.HasEntry() && r.opts.breaker == nil {
			continue
		}
		if !t.Deleted && (a.Kind == core.Done || a.Kind == core.DoneAgain) {
			r.observer.NoteApplied(t.Row, t.Revision)
		}
		out := a.Outcome(t.Object)
		if a.Kind == core.BlockedOn && !a.Lost {
			out.Delay = r.block(t, a)
		} else {
			r.unblock(t.Row)
		}
		if a.HasFailed() && r.opts.breaker != nil && r.opts.breaker.ByClass {
			a.Class, a.Classed = r.classes.Of(t.Err, *a.Text, t.Row), true
			if a.Kind == core.Failed || a.GivenUp {
				out.Class = a.Class
			}
		}
		out.Wanted, out.Jitter = a.Wanted, t.Jitter
		out.Mark = uint8(r.asked(t))
		r.core.Settle(now, item, out)
	}
}

// noteWanted sets whether an attempt was for a change, and since when it was wanted. Work without a change,
// such as a refresh, counts as wanted since now. So does a deletion that was read in this round, from the
// start of the pass.
func (r *runner[Obj]) noteWanted(a *ledger.Attempt[Obj], t *execute.Task[Obj], now time.Duration) {
	a.Change = a.Wanted != 0 || t.Deleted
	if a.Wanted != 0 {
		return
	}
	a.Wanted = now
	if t.Deleted {
		a.Wanted = r.began
	}
}

// block makes a key wait for the channels of its attempt, and returns the delay of its recheck. A
// channel that is closed already releases it at once, because the event may have happened while the
// operation ran. A key that had waited before then runs after a short delay, so that an operation
// that always returns a closed channel does not spin.
func (r *runner[Obj]) block(t *execute.Task[Obj], a *ledger.Attempt[Obj]) time.Duration {
	if a.Again && watch.AnyClosed(a.Directive.Watch) {
		r.unblock(t.Row)
		return pace.Gather
	}
	r.blocked.Set(string(r.rows.Key(t.Row)), a.Directive.Watch)
	return backoff.Exponential{Jitter: r.set.Jitter, Fraction: t.Jitter, Rand: r.rand}.Spread(r.set.BlockedRecheck)
}

// unblock makes the key of an object wait for no channel.
func (r *runner[Obj]) unblock(obj Obj) {
	if r.blocked.Any() {
		r.blocked.Remove(string(r.rows.Key(obj)))
	}
}

// takeBackQueued takes back the jobs that workers have not begun.
func (r *runner[Obj]) takeBackQueued() {
	for _, j := range slices.Backward(r.workers.Recall()) {
		for i := range slices.Backward(j.Load.items) {
			r.putBack(&j.Load.items[i])
		}
	}
}

// forgetBatch empties the batch of the round, so that it keeps no object in memory.
func (r *runner[Obj]) forgetBatch() {
	r.batch.empty()
	r.workers.forget()
}
