// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

// act looks up what the plan's items stand for in the snapshot, and runs them. It
// returns the tasks that were run with what is known of each; those that were not are
// settled already.
func (l *Loop[Obj]) act(ctx context.Context, r *Round, txn statedb.ReadTxn, plan []core.Item[Obj]) ([]task[Obj], []attempt[Obj]) {
	for i := range plan {
		if plan[i].Again {
			r.Waited++
		} else {
			r.Changes++
		}
		l.resolve(txn, i, &plan[i])
	}
	if len(l.tasks) == 0 {
		return nil, nil
	}
	ran := l.executor.execute(ctx, txn, l.tasks)
	r.Returned = len(l.tasks) - ran
	if ctx.Err() != nil {
		return l.onlyRun(ran)
	}
	return l.tasks[:ran], l.attempts[:ran]
}

// onlyRun drops what was not run of the first tasks. The loop is about to end, so that
// nobody misses them in the core.
func (l *Loop[Obj]) onlyRun(ran int) (tasks []task[Obj], attempts []attempt[Obj]) {
	for i := range l.tasks[:ran] {
		if l.tasks[i].err != errNotRun {
			tasks, attempts = append(tasks, l.tasks[i]), append(attempts, l.attempts[i])
		}
	}
	return tasks, attempts
}

// resolve makes a task of an item, of the version of the object that the snapshot has.
func (l *Loop[Obj]) resolve(txn statedb.ReadTxn, i int, item *core.Item[Obj]) {
	object, revision := item.Obj, item.Revision
	if item.Again {
		var kind core.Kind
		if object, revision, kind = l.current(txn, item); kind != core.Done {
			l.core.Settle(l.now(), item, core.Outcome[Obj]{Kind: kind})
			l.unblock(item.Obj)
			return
		}
	}
	l.tasks = append(l.tasks, task[Obj]{
		object: object, revision: revision, deleted: item.Deleted, asked: status.Kind(item.Mark),
	})
	l.attempts = append(l.attempts, attempt[Obj]{
		row: object, item: int32(i), number: int32(item.Attempt() + 1), again: item.Again,
	})
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
	unobserved := found && revision > l.observer.revision
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

// settle tells the core what came of the plan, and puts back what was not run.
func (l *Loop[Obj]) settle(r *Round, plan []core.Item[Obj], tasks []task[Obj], attempts []attempt[Obj]) {
	now := l.now()
	for i := range attempts {
		a := &attempts[i]
		item := &plan[a.item]
		if a.result == resultDone && !item.Waited() {
			continue
		}
		out := a.outcome(tasks[i].object)
		if a.result == resultBlocked && !a.lost {
			out.Delay = l.block(a)
		} else {
			l.unblock(a.row)
		}
		out.Mark = uint8(l.asked(&tasks[i], a))
		l.core.Settle(now, item, out)
	}
	for i := len(attempts); i < len(attempts)+r.Returned; i++ {
		l.core.Return(&plan[l.attempts[i].item])
	}
}

// block makes a key wait for the channels of its attempt. One that is closed already
// releases it at once: what it waits for may have happened while the operation ran. But a
// key that had waited before is then run again after the returned time, which keeps an
// operation that always returns a closed channel from spinning.
func (l *Loop[Obj]) block(a *attempt[Obj]) time.Duration {
	l.unblock(a.row)
	if a.again && anyClosed(a.directive.watch) {
		return gather
	}
	l.blocked.settle(string(l.indexer.ObjectToKey(a.row)), a.directive.watch)
	return 0
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
	l.tasks, l.attempts = l.tasks[:0], l.attempts[:0]
}
