// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/status"
)

// batch is work that is run together: in line all of a round, on a worker one operation or
// one call for many.
type batch[Obj any] struct {
	items    []core.Item[Obj]
	tasks    []task[Obj]
	attempts []attempt[Obj]
}

// act looks up what the plan's items stand for in the snapshot, and runs them, here or
// on workers. It returns how many that were; what was run here is completed.
func (l *Loop[Obj]) act(ctx context.Context, r *Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (ran int) {
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
		b.tasks, b.attempts = append(b.tasks, task[Obj]{}), append(b.attempts, attempt[Obj]{item: int32(i)})
		if !l.resolve(txn, &plan[i], &b.tasks[n], &b.attempts[n]) {
			b.tasks, b.attempts = b.tasks[:n], b.attempts[:n]
		}
	}
	if len(b.tasks) == 0 {
		return 0
	}
	for i := range b.attempts {
		if plan[b.attempts[i].item].Waited() {
			l.observer.NoteOther()
		}
	}
	permitted := l.permitted(b.tasks)
	from := l.now()
	if x, single := l.executor.(*inline[Obj]); single {
		x.turn = l.pace.TurnLength()
	}
	l.doing = doingBatch
	l.watchdog.begin(l, from)
	l.executor.execute(ctx, txn, b.tasks[:permitted], b.attempts[:permitted], l.beginCall)
	l.watchdog.end()
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
	l.watchdog.begin(l, l.now())
	return true
}

// complete takes in what came of a batch: it gives back what was not run, writes the
// outcomes, and tells the core, the waits and the figures. It is the one place where that is
// done.
func (l *Loop[Obj]) complete(r *Round, b *batch[Obj]) {
	l.giveBack(r, b)
	if l.observer.Behind() {
		for i := range b.tasks {
			l.observer.NoteTook(b.tasks[i].share)
		}
	}
	l.commit(r, b.tasks, b.attempts)
	open := l.core.Open()
	l.settle(b)
	if !open && l.core.Open() {
		l.recall()
	}
	if l.keyWaits.Waiting() > 0 {
		for i := range b.tasks {
			l.keyWaits.Ran(b.attempts[i].row, b.tasks[i].revision, b.tasks[i].deleted, l.observer.Revision())
		}
	}
	l.tellRefresherOf(b)
}

// giveBack takes the tasks out of a batch that were not run, and puts their items back.
func (l *Loop[Obj]) giveBack(r *Round, b *batch[Obj]) {
	n := len(b.tasks)
	for i := len(b.tasks) - 1; i >= 0; i-- {
		if b.tasks[i].err != errNotRun {
			continue
		}
		l.putBack(&b.items[b.attempts[i].item])
		r.Returned++
		n--
	}
	if n == len(b.tasks) {
		return
	}
	at := 0
	for i := range b.tasks {
		if b.tasks[i].err != errNotRun {
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
func (l *Loop[Obj]) permitted(tasks []task[Obj]) int {
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
func (l *Loop[Obj]) resolve(txn statedb.ReadTxn, item *core.Item[Obj], t *task[Obj], a *attempt[Obj]) bool {
	object, revision := item.Obj, item.Revision
	if item.Waited() || l.observer.Stale(item) {
		var kind core.Kind
		if object, revision, kind = l.current(txn, item); kind != core.Done {
			l.core.Settle(l.now(), item, core.Outcome[Obj]{Kind: kind})
			l.unblock(item.Obj)
			l.keyWaits.Changed(item.Obj)
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
	t.object, t.revision, t.deleted, t.asked, t.err = object, revision, item.Deleted, status.Kind(item.Mark), errNotRun
	a.row, a.again, a.cause = object, item.Again, causeOf(item)
	if a.cause == causeChange && l.observer.CatchingUp() && l.rows.GetStatus(object).Kind == status.KindRefreshing {
		// Its lane does not tell.
		a.cause = causeRefresh
	}
	a.number, a.tries, a.wanted = int32(item.Attempt()+1), int32(item.Tries()), item.Wanted()
	return true
}

// clone returns the copy of a task's object that an operation is handed.
func (l *Loop[Obj]) clone(t *task[Obj]) Obj {
	object := l.rows.Clone(t.object)
	if t.asked == status.KindUnset || t.deleted {
		return object
	}
	s := l.rows.GetStatus(object)
	if s.IsPendingOrRefreshing() {
		return object
	}
	s.Kind, s.Error = t.asked, nil
	return l.rows.SetStatus(object, s)
}

// asked returns the status that asked for an attempt, for the next one to know.
func (l *Loop[Obj]) asked(t *task[Obj], a *attempt[Obj]) status.Kind {
	if s := l.rows.GetStatus(a.row); s.IsPendingOrRefreshing() {
		return s.Kind
	}
	return t.asked
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

// settle tells the core what came of the items of the tasks.
func (l *Loop[Obj]) settle(b *batch[Obj]) {
	now := l.now()
	tasks := b.tasks
	for i := range b.attempts {
		a := &b.attempts[i]
		item := &b.items[a.item]
		a.wanted = l.wantedAt(a, &tasks[i], now)
		if a.result == resultDone && !item.Waited() && l.opts.breaker == nil {
			continue
		}
		out := a.outcome(tasks[i].object)
		if a.result == resultBlocked && !a.lost && !a.stillDeleting() {
			out.Delay = l.block(a, tasks[i].jitter)
		} else {
			l.unblock(a.row)
		}
		if (out.Kind == core.Failed || out.Kind == core.FailedForGood) && l.opts.breaker != nil && l.opts.breaker.ByClass {
			a.class, a.classed = l.classOf(&tasks[i], a), true
			if out.Kind == core.Failed || out.GivenUp {
				out.Class = a.class
			}
		}
		out.Wanted, out.Jitter = a.wanted, tasks[i].jitter
		out.Mark = uint8(l.asked(&tasks[i], a))
		l.core.Settle(now, item, out)
	}
}

// block makes a key wait for the channels of its attempt. One that is closed already
// releases it at once: what it waits for may have happened while the operation ran. But a
// key that had waited before is then run again after the returned time, which keeps an
// operation that always returns a closed channel from spinning. jitter is that of the task.
func (l *Loop[Obj]) block(a *attempt[Obj], jitter float64) time.Duration {
	if a.again && watch.AnyClosed(a.directive.watch) {
		l.unblock(a.row)
		return pace.Gather
	}
	l.blocked.Set(string(l.rows.Key(a.row)), a.directive.watch)
	return backoff.Exponential{Jitter: l.set.Jitter, Fraction: jitter, Rand: l.rand}.Spread(l.set.BlockedRecheck)
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
	clear(l.landed)
	b.items, b.tasks, b.attempts, l.landed = nil, b.tasks[:0], b.attempts[:0], l.landed[:0]
	clear(l.items)
	l.items = l.items[:0]
}
