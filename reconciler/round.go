// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

// act looks up what the plan's items stand for in the snapshot, and runs them, here or
// on workers. It returns how many that were; what was run here is committed and settled.
func (l *Loop[Obj]) act(ctx context.Context, r *Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (ran int) {
	for i := range plan {
		if plan[i].Again {
			r.Waited++
		} else {
			r.Changes++
		}
	}
	if l.pooled {
		return l.launch(ctx, txn, plan)
	}
	for i := range plan {
		n := len(l.tasks)
		l.tasks, l.attempts = append(l.tasks, task[Obj]{}), append(l.attempts, attempt[Obj]{item: int32(i)})
		if !l.resolve(txn, &plan[i], &l.tasks[n], &l.attempts[n]) {
			l.tasks, l.attempts = l.tasks[:n], l.attempts[:n]
		}
	}
	if len(l.tasks) == 0 {
		return 0
	}
	permitted := l.permitted(plan)
	ran = l.executor.execute(ctx, txn, l.tasks[:permitted], l.attempts[:permitted])
	r.Returned = len(l.tasks) - ran
	for i := len(l.attempts) - 1; i >= ran; i-- {
		l.core.Return(&plan[l.attempts[i].item])
	}
	l.pace.ran(ran, r.Returned)
	clear(l.tasks[ran:])
	clear(l.attempts[ran:])
	l.tasks, l.attempts = l.tasks[:ran], l.attempts[:ran]
	l.onlyRun()
	if l.batches() {
		l.pace.called(inCalls(l.tasks), len(l.tasks))
	}
	l.commit(r, l.tasks, l.attempts)
	l.settle(plan, l.tasks, l.attempts)
	return ran
}

// permitted returns how many of the tasks are within the limit on the rate of
// operations. The executor of single ones asks for each when its turn comes.
func (l *Loop[Obj]) permitted(plan []core.Item[Obj]) int {
	if l.set.OperationLimiter == nil || !l.batches() {
		return len(l.tasks)
	}
	for i := range l.tasks {
		if !l.admitOne() {
			return i
		}
	}
	return len(l.tasks)
}

// onlyRun drops what was not run of the tasks: the loop is about to end, so that
// nobody misses them in the core.
func (l *Loop[Obj]) onlyRun() {
	n := 0
	for i := range l.tasks {
		if l.tasks[i].err == errNotRun {
			continue
		}
		if n < i {
			l.tasks[n], l.attempts[n] = l.tasks[i], l.attempts[i]
		}
		n++
	}
	l.tasks, l.attempts = l.tasks[:n], l.attempts[:n]
}

// inCalls returns how long the calls took that ran the tasks.
func inCalls[Obj any](tasks []task[Obj]) (took time.Duration) {
	for i := range tasks {
		if tasks[i].call {
			took += tasks[i].share
		}
	}
	return took
}

// resolve makes a task of an item, of the version of the object that the snapshot has, and
// puts it where t and a are, which have to be zero. An item that is not to be run is settled.
func (l *Loop[Obj]) resolve(txn statedb.ReadTxn, item *core.Item[Obj], t *task[Obj], a *attempt[Obj]) bool {
	object, revision := item.Obj, item.Revision
	if item.Again {
		var kind core.Kind
		if object, revision, kind = l.current(txn, item); kind != core.Done {
			l.core.Settle(l.now(), item, core.Outcome[Obj]{Kind: kind})
			l.unblock(item.Obj)
			l.objectWaits.touch(l, item.Obj)
			return false
		}
	}
	t.object, t.revision, t.deleted, t.asked = object, revision, item.Deleted, status.Kind(item.Mark)
	a.row, a.again, a.cause = object, item.Again, causeOf(item)
	a.number, a.tries, a.wanted = int32(item.Attempt()+1), int32(item.Tries()), item.Wanted()
	return true
}

// clone returns the copy of a task's object that an operation is handed.
func (l *Loop[Obj]) clone(t *task[Obj]) Obj {
	object := l.cfg.Clone(t.object)
	if t.asked == status.KindUnset || t.deleted {
		return object
	}
	s := l.cfg.GetStatus(object)
	if s.IsPendingOrRefreshing() {
		return object
	}
	s.Kind, s.Error = t.asked, nil
	return l.cfg.SetStatus(object, s)
}

// asked returns the status that asked for an attempt, for the next one to know.
func (l *Loop[Obj]) asked(t *task[Obj], a *attempt[Obj]) status.Kind {
	if s := l.cfg.GetStatus(a.row); s.IsPendingOrRefreshing() {
		return s.Kind
	}
	return t.asked
}

// current looks up the object of an item that waited. The kind is Done if it is to be
// run; otherwise it says why not.
func (l *Loop[Obj]) current(txn statedb.ReadTxn, item *core.Item[Obj]) (Obj, statedb.Revision, core.Kind) {
	object, revision, found := l.cfg.Table.Get(txn, l.indexer.QueryFromObject(item.Obj))
	unobserved := found && !l.observer.saw(revision)
	switch {
	case item.Deleted && !found:
		return item.Obj, item.Revision, core.Done
	case item.Deleted && unobserved:
		return object, revision, core.Superseded
	case item.Deleted:
		// Inserted again, with a status that asks for nothing.
		return object, revision, core.Void
	case !found:
		return object, revision, core.Superseded
	case !unobserved && l.cfg.GetStatus(object).Kind == status.KindUnset:
		// Written since as an object that nobody is to reconcile.
		return object, revision, core.Void
	case unobserved && l.cfg.GetStatus(object).IsPendingOrRefreshing():
		return object, revision, core.Superseded
	}
	return object, revision, core.Done
}

// settle tells the core what came of the items of the tasks.
func (l *Loop[Obj]) settle(items []core.Item[Obj], tasks []task[Obj], attempts []attempt[Obj]) {
	now := l.now()
	for i := range attempts {
		a := &attempts[i]
		item := &items[a.item]
		a.wanted = l.wantedAt(a, &tasks[i], now)
		if a.result == resultDone && !item.Waited() && l.opts.breaker == nil {
			continue
		}
		out := a.outcome(tasks[i].object)
		if a.result == resultBlocked && !a.lost {
			out.Delay = l.block(a)
		} else {
			l.unblock(a.row)
		}
		if (out.Kind == core.Failed || out.Kind == core.FailedForGood) && l.opts.breaker != nil && l.opts.breaker.Class != nil {
			a.class = l.classOf(tasks[i].err)
			if out.Kind == core.Failed || out.GivenUp {
				out.Class = a.class
			}
		}
		out.Wanted = a.wanted
		out.Mark = uint8(l.asked(&tasks[i], a))
		l.core.Settle(now, item, out)
	}
}

// classOf returns the class of an error, none if the user's function panics.
func (l *Loop[Obj]) classOf(err error) (class string) {
	defer func() {
		if r := recover(); r != nil && !l.opts.panics {
			l.log.Error("the breaker's Class panicked", "panic", r, "error", textOf(err))
		} else if r != nil {
			panic(r)
		}
	}()
	return l.opts.breaker.Class(err)
}

// block makes a key wait for the channels of its attempt. One that is closed already
// releases it at once: what it waits for may have happened while the operation ran. But a
// key that had waited before is then run again after the returned time, which keeps an
// operation that always returns a closed channel from spinning.
func (l *Loop[Obj]) block(a *attempt[Obj]) time.Duration {
	if a.again && anyClosed(a.directive.watch) {
		l.unblock(a.row)
		return gather
	}
	l.blocked.settle(string(l.indexer.ObjectToKey(a.row)), a.directive.watch)
	return backoff.Exponential{Jitter: l.set.Jitter, Rand: l.rand}.Spread(l.set.BlockedRecheck)
}

func anyClosed(channels []<-chan struct{}) bool {
	for _, ch := range channels {
		select {
		case <-ch:
			return true
		default:
		}
	}
	return false
}

// unblock makes the key of an object wait for no channel.
func (l *Loop[Obj]) unblock(obj Obj) {
	if l.blocked.any() {
		l.blocked.leave(string(l.indexer.ObjectToKey(obj)))
	}
}

// recycle empties the loop's tasks and attempts, so that they pin no object.
func (l *Loop[Obj]) recycle() {
	clear(l.tasks)
	clear(l.attempts)
	clear(l.landed)
	l.tasks, l.attempts, l.landed = l.tasks[:0], l.attempts[:0], l.landed[:0]
}
