// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
)

// launch hands a plan to workers: each item by itself, or all as one batch.
func (l *Loop[Obj]) launch(ctx context.Context, txn statedb.ReadTxn, plan []core.Item[Obj]) (launched int) {
	flights := l.flights[:0]
	permitted := len(plan)
	for i := range plan {
		item := &plan[i]
		var t task[Obj]
		var a attempt[Obj]
		if !l.resolve(txn, item, &t, &a) {
			continue
		}
		if !l.admitOne() {
			permitted = i
			break
		}
		l.core.Launch(item)
		if !l.batches() || len(flights) == 0 {
			flights = append(flights, newFlight[Obj](txn))
		}
		f := flights[len(flights)-1]
		a.item = int32(len(f.items))
		f.items = append(f.items, *item)
		f.tasks = append(f.tasks, t)
		f.attempts = append(f.attempts, a)
		launched++
	}
	for i := len(plan) - 1; i >= permitted; i-- {
		l.core.Return(&plan[i])
	}
	if len(flights) > 0 {
		l.pool.give(ctx, flights...)
	}
	clear(flights)
	l.flights = flights[:0]
	return launched
}

// land commits and settles what workers have finished.
func (l *Loop[Obj]) land(ctx context.Context, r *Round) {
	if !l.pool.any() {
		return
	}
	l.pool.leaveBehind(ctx)
	l.landed = l.pool.take(l.landed[:0])
	for _, f := range l.landed {
		first := int32(len(l.items))
		for i := range f.tasks {
			if i >= f.ran || f.tasks[i].err == errNotRun {
				continue
			}
			f.attempts[i].item += first
			l.tasks, l.attempts = append(l.tasks, f.tasks[i]), append(l.attempts, f.attempts[i])
		}
		l.items = append(l.items, f.items...)
	}
	if len(l.landed) == 0 {
		return
	}
	l.commit(r, l.tasks, l.attempts)
	open := l.core.Open()
	l.settle(l.items, l.tasks, l.attempts)
	if !open && l.core.Open() {
		l.recall()
	}
	clear(l.items)
	l.items = l.items[:0]
}

// recall takes back what workers have not begun: it is not to be started any more.
func (l *Loop[Obj]) recall() {
	now := l.now()
	for _, f := range slices.Backward(l.pool.recall()) {
		for i := range slices.Backward(f.items) {
			l.core.Recall(now, &f.items[i])
		}
	}
}
