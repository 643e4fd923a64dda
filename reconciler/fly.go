// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// launch hands a plan to workers: each item by itself, or all as one batch.
func (l *Loop[Obj]) launch(ctx context.Context, r *inspect.Round, txn statedb.ReadTxn, plan []core.Item[Obj]) (launched int) {
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
		if !l.batches() || len(flights) == 0 {
			flights = append(flights, newFlight[Obj](txn, l.observer.snapshots))
		}
		f := flights[len(flights)-1]
		f.other = f.other || item.Waited()
		l.core.Launch(item)
		a.item = int32(len(f.items))
		f.items = append(f.items, *item)
		f.tasks = append(f.tasks, t)
		f.attempts = append(f.attempts, a)
		launched++
	}
	for i := len(plan) - 1; i >= permitted; i-- {
		l.takeBack(&plan[i])
		r.Returned++
	}
	if len(flights) > 0 {
		l.pool.give(ctx, flights...)
	}
	clear(flights)
	l.flights = flights[:0]
	return launched
}

// land completes what workers have finished: all of it in one transaction.
func (l *Loop[Obj]) land(ctx context.Context, r *inspect.Round) {
	if !l.pool.any() {
		return
	}
	for _, f := range l.pool.overdue(ctx) {
		for i := range f.items {
			l.core.Stuck(l.began, &f.items[i])
		}
	}
	l.landed = l.pool.take(l.landed[:0])
	if len(l.landed) == 0 {
		return
	}
	b := &l.batch
	b.items = l.items[:0]
	for _, f := range l.landed {
		l.observer.mixed = l.observer.mixed || f.other || f.snapshot != l.observer.snapshots
		for i := range f.attempts {
			f.attempts[i].item += int32(len(b.items))
		}
		b.items = append(b.items, f.items...)
		b.tasks, b.attempts = append(b.tasks, f.tasks...), append(b.attempts, f.attempts...)
	}
	l.items = b.items
	l.complete(r, b)
}

// recall takes back what workers have not begun: it is not started any more.
func (l *Loop[Obj]) recall() {
	for _, f := range slices.Backward(l.pool.recall()) {
		for i := range slices.Backward(f.items) {
			l.putBack(&f.items[i])
		}
	}
}
