// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// batch is work that is run together: in line all of a round, on a worker one operation or
// one call for many.
type batch[Obj any] struct {
	items    []core.Item[Obj]
	tasks    []execute.Task[Obj]
	attempts []ledger.Attempt[Obj]
}

// workerJob is a batch that a worker runs, pool runs them.
type (
	workerJob[Obj comparable] = execute.Job[Obj, load[Obj]]
	pool[Obj comparable]      = execute.Pool[Obj, load[Obj]]
)

// load is what of a batch is not for the worker.
type load[Obj any] struct {
	items    []core.Item[Obj]
	attempts []ledger.Attempt[Obj]
	// snapshot is the number of the one that main was reading; other: some of it was not
	// from there.
	snapshot uint64
	other    bool
	// one is where the slices are of a job for one object.
	one struct {
		item    [1]core.Item[Obj]
		attempt [1]ledger.Attempt[Obj]
	}
}

func newJob[Obj comparable](txn statedb.ReadTxn, snapshot uint64) *workerJob[Obj] {
	j := execute.NewJob[Obj, load[Obj]](txn)
	j.Load.snapshot = snapshot
	j.Load.items, j.Load.attempts = j.Load.one.item[:0], j.Load.one.attempt[:0]
	return j
}

// Objects implements [execute.Load].
func (d load[Obj]) Objects(yield func(obj Obj, deleted bool) bool) {
	for i := range d.items {
		if !yield(d.items[i].Obj, d.items[i].Deleted) {
			return
		}
	}
}

// act looks up what the plan's items stand for in the snapshot, and runs them, here or
// on workers. It returns how many that were; what was run here is completed.
func (l *Loop[Obj]) act(ctx context.Context, r *inspect.Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (ran int) {
	for i := range plan {
		if plan[i].Again {
			r.Waited++
		} else {
			r.Changes++
		}
	}
	if l.pooled {
		return l.launch(ctx, r, txn, plan)
	}
	b := &l.batch
	b.items = plan
	for i := range plan {
		n := len(b.tasks)
		b.tasks, b.attempts = append(b.tasks, execute.Task[Obj]{}), append(b.attempts, ledger.Attempt[Obj]{Item: int32(i)})
		if !l.resolve(txn, &plan[i], &b.tasks[n], &b.attempts[n]) {
			b.tasks, b.attempts = b.tasks[:n], b.attempts[:n]
		}
	}
	if len(b.tasks) == 0 {
		return 0
	}
	for i := range b.attempts {
		if plan[b.attempts[i].Item].HasEntry() {
			l.observer.NoteOther()
		}
	}
	permitted := l.permitted(b.tasks)
	from := l.now()
	l.executor.Turn = l.pace.TurnLength()
	l.doing = doingBatch
	l.reporter.Begin(from)
	l.executor.Run(ctx, txn, b.tasks[:permitted], l.beginCall)
	l.reporter.End()
	l.doing = doingNothing
	took, planned := l.now()-from, len(b.tasks)
	l.complete(r, b)
	if ran = len(b.tasks); !l.batches() {
		l.pace.RanTurn(ran, planned-ran, took)
	}
	l.pace.Committed(r.CommitTook)
	return ran
}

// beginCall notes that the loop begins another call of a batch.
func (l *Loop[Obj]) beginCall() bool {
	l.reporter.Begin(l.now())
	return true
}

// complete takes in what came of a batch: it gives back what was not run, writes the
// outcomes, and tells the core, the waits and the figures. It is the one place where that is
// done.
func (l *Loop[Obj]) complete(r *inspect.Round, b *batch[Obj]) {
	l.giveBack(r, b)
	if l.observer.Behind() {
		for i := range b.tasks {
			l.observer.NoteTook(b.tasks[i].Share)
		}
	}
	l.commit(r, b)
	open := l.core.BreakerOpen()
	l.settle(b)
	if !open && l.core.BreakerOpen() {
		l.recall()
	}
	if l.keyWaits.Waiting() > 0 {
		for i := range b.tasks {
			l.keyWaits.NoteOperation(b.tasks[i].Row, b.tasks[i].Revision, b.tasks[i].Deleted, l.observer.Revision())
		}
	}
	l.tellRefresherOf(b)
}

// giveBack takes the tasks out of a batch that were not run, and puts their items back.
func (l *Loop[Obj]) giveBack(r *inspect.Round, b *batch[Obj]) {
	n := len(b.tasks)
	for i := len(b.tasks) - 1; i >= 0; i-- {
		if b.tasks[i].Err != execute.ErrNotRun {
			continue
		}
		l.putBack(&b.items[b.attempts[i].Item])
		r.Returned++
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

// putBack puts an item back that was not run. Several are put back in the reverse of their
// order.
func (l *Loop[Obj]) putBack(item *core.Item[Obj]) {
	if item.Launched() {
		l.core.Recall(l.now(), item)
	} else {
		l.observer.TakeBack(item, l.began)
	}
}

// permitted returns how many of the tasks are within the limit on the rate of
// operations. The executor of single ones asks for each when its turn comes.
func (l *Loop[Obj]) permitted(tasks []execute.Task[Obj]) int {
	if l.set.OperationLimiter == nil || !l.batches() {
		return len(tasks)
	}
	for i := range tasks {
		if !l.admitOne() {
			return i
		}
	}
	return len(tasks)
}

// resolve makes a task of an item, and puts it where t and a are, which have to be zero. What
// may have changed since the item was observed is looked up in the transaction of the round:
// what waited, and what main read a while ago. An item that is not to be run is settled.
func (l *Loop[Obj]) resolve(txn statedb.ReadTxn, item *core.Item[Obj], t *execute.Task[Obj], a *ledger.Attempt[Obj]) bool {
	object, revision := item.Obj, item.Revision
	if item.HasEntry() || l.observer.Stale(item) {
		var kind core.Kind
		if object, revision, kind = l.current(txn, item); kind != core.Done {
			l.core.Settle(l.now(), item, core.Outcome[Obj]{Kind: kind})
			l.unblock(item.Obj)
			l.keyWaits.NoteChange(item.Obj)
			return false
		}
		if revision != item.Revision {
			s := l.rows.GetStatus(object)
			if s.IsPendingOrRefreshing() && !l.core.Renew(item, object, revision, l.progress.Since(s.ID, revision, true)) {
				l.unblock(item.Obj)
				return false
			}
		}
	}
	revision = l.observer.RevisionFor(revision, item.Deleted, txn)
	l.observer.NoteRevision(revision)
	t.Object, t.Revision, t.Deleted, t.Asked, t.Err = object, revision, item.Deleted, status.Kind(item.Mark), execute.ErrNotRun
	t.Row, a.Again, a.Cause = object, item.Again, item.Cause()
	if a.Cause == core.CauseChange && l.observer.CatchingUp() && l.rows.GetStatus(object).Kind == status.KindRefreshing {
		// Its lane does not tell.
		a.Cause = core.CauseRefresh
	}
	t.Attempt, a.Tries, a.Wanted = int32(item.Attempt()+1), int32(item.Tries()), item.Wanted()
	return true
}

// asked returns the status that asked for an attempt, for the next one to know.
func (l *Loop[Obj]) asked(t *execute.Task[Obj]) status.Kind {
	if s := l.rows.GetStatus(t.Row); s.IsPendingOrRefreshing() {
		return s.Kind
	}
	return t.Asked
}

// current looks up the object of an item. The kind is Done if the returned version is to be
// run; otherwise it says why not.
func (l *Loop[Obj]) current(txn statedb.ReadTxn, item *core.Item[Obj]) (Obj, statedb.Revision, core.Kind) {
	object, revision, found := l.rows.Get(txn, item.Obj)
	if !found {
		if item.Deleted {
			return item.Obj, item.Revision, core.Done
		}
		// Its deletion is still to be observed.
		return object, revision, core.Superseded
	}
	switch s := l.rows.GetStatus(object); {
	case s.IsPendingOrRefreshing():
		return object, revision, core.Done
	case item.Deleted, item.Untried(), s.Kind == status.KindUnset:
		// The object is back, or reconciled, or left alone.
		return object, revision, core.Void
	}
	return object, revision, core.Done
}

// commit writes the outcomes of a batch that are news.
func (l *Loop[Obj]) commit(r *inspect.Round, b *batch[Obj]) {
	c := l.ledger.Write(b.tasks, b.attempts, ledger.Options{MaxRetries: l.set.MaxRetries, Revisions: l.pooled})
	r.Written += c.Written
	r.Lost += c.Lost
	r.Conflicts += c.Conflicts
	r.CommitTook += c.Took
	l.observer.NoteWritten(c.Revision, c.Written)
}

// settle tells the core what came of the items of the tasks.
func (l *Loop[Obj]) settle(b *batch[Obj]) {
	now := l.now()
	for i := range b.attempts {
		t, a := &b.tasks[i], &b.attempts[i]
		item := &b.items[a.Item]
		a.Wanted = l.wantedAt(a, t, now)
		if a.Kind == core.Done && !item.HasEntry() && l.opts.breaker == nil {
			continue
		}
		out := a.Outcome(t.Object)
		if a.Kind == core.BlockedOn && !a.Lost {
			out.Delay = l.block(t, a)
		} else {
			l.unblock(t.Row)
		}
		if a.HasFailed() && l.opts.breaker != nil && l.opts.breaker.ByClass {
			a.Class, a.Classed = l.classes.Of(t.Err, *a.Text, t.Row), true
			if a.Kind == core.Failed || a.GivenUp {
				out.Class = a.Class
			}
		}
		out.Wanted, out.Jitter = a.Wanted, t.Jitter
		out.Mark = uint8(l.asked(t))
		l.core.Settle(now, item, out)
	}
}

// block makes a key wait for the channels of its attempt. One that is closed already
// releases it at once: what it waits for may have happened while the operation ran. But a
// key that had waited before is then run again after the returned time, which keeps an
// operation that always returns a closed channel from spinning.
func (l *Loop[Obj]) block(t *execute.Task[Obj], a *ledger.Attempt[Obj]) time.Duration {
	if a.Again && watch.AnyClosed(a.Directive.Watch) {
		l.unblock(t.Row)
		return pace.Gather
	}
	l.blocked.Set(string(l.rows.Key(t.Row)), a.Directive.Watch)
	return backoff.Exponential{Jitter: l.set.Jitter, Fraction: t.Jitter, Rand: l.rand}.Spread(l.set.BlockedRecheck)
}

// unblock makes the key of an object wait for no channel.
func (l *Loop[Obj]) unblock(obj Obj) {
	if l.blocked.Any() {
		l.blocked.Remove(string(l.rows.Key(obj)))
	}
}

// recycle empties the batch of the round, so that it pins no object.
func (l *Loop[Obj]) recycle() {
	b := &l.batch
	clear(b.tasks)
	clear(b.attempts)
	clear(l.finished)
	b.items, b.tasks, b.attempts, l.finished = nil, b.tasks[:0], b.attempts[:0], l.finished[:0]
	clear(l.items)
	l.items = l.items[:0]
}

// launch hands a plan to workers: each item by itself, or all as one batch.
func (l *Loop[Obj]) launch(ctx context.Context, r *inspect.Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (launched int) {
	jobs := l.jobs[:0]
	permitted := len(plan)
	for i := range plan {
		item := &plan[i]
		var t execute.Task[Obj]
		var a ledger.Attempt[Obj]
		if !l.resolve(txn, item, &t, &a) {
			continue
		}
		if !l.admitOne() {
			permitted = i
			break
		}
		if !l.batches() || len(jobs) == 0 {
			jobs = append(jobs, newJob[Obj](txn, l.observer.Snapshots()))
		}
		j := jobs[len(jobs)-1]
		j.Load.other = j.Load.other || item.HasEntry()
		l.core.Launch(item)
		a.Item = int32(len(j.Load.items))
		j.Load.items = append(j.Load.items, *item)
		j.Load.attempts = append(j.Load.attempts, a)
		j.Tasks = append(j.Tasks, t)
		launched++
	}
	for i := len(plan) - 1; i >= permitted; i-- {
		l.observer.TakeBack(&plan[i], l.began)
		r.Returned++
	}
	if len(jobs) > 0 {
		l.pool.Start(ctx, jobs...)
	}
	clear(jobs)
	l.jobs = jobs[:0]
	return launched
}

// completeFinished completes what workers have finished: all of it in one transaction.
func (l *Loop[Obj]) completeFinished(ctx context.Context, r *inspect.Round) {
	if !l.pool.IsBusy() {
		return
	}
	for _, j := range l.pool.Overdue(ctx) {
		for i := range j.Load.items {
			l.core.MarkStuck(l.began, &j.Load.items[i])
		}
	}
	l.finished = l.pool.Finished(l.finished[:0])
	if len(l.finished) == 0 {
		return
	}
	b := &l.batch
	b.items = l.items[:0]
	for _, j := range l.finished {
		if j.Load.other || j.Load.snapshot != l.observer.Snapshots() {
			l.observer.NoteOther()
		}
		for i := range j.Load.attempts {
			j.Load.attempts[i].Item += int32(len(b.items))
		}
		b.items = append(b.items, j.Load.items...)
		b.tasks, b.attempts = append(b.tasks, j.Tasks...), append(b.attempts, j.Load.attempts...)
	}
	l.items = b.items
	l.complete(r, b)
}

// recall takes back what workers have not begun: it is not started any more.
func (l *Loop[Obj]) recall() {
	for _, j := range slices.Backward(l.pool.Recall()) {
		for i := range slices.Backward(j.Load.items) {
			l.putBack(&j.Load.items[i])
		}
	}
}
