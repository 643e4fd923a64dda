// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/statedb"
)

// batched runs a round's operations in one call, or in one for the deletions and one
// for the updates.
type batched[Obj comparable] struct {
	guard
	clone func(*task[Obj]) Obj
	scope *scope[Obj]
	info  func(t *task[Obj], a *attempt[Obj], operation string, objects int) OperationInfo
	// attempts are those of the tasks.
	attempts []attempt[Obj]
	// Exactly one of these is set.
	batches BatchOperations[Obj]
	rounds  RoundOperations[Obj]
}

func (x *batched[Obj]) execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj], further func() bool) {
	if ctx.Err() != nil {
		return
	}
	x.attempts = attempts
	defer func() { x.attempts = nil }()
	defer x.scope.set(0, nil, nil, allKinds)
	deletes, updates := x.split(tasks)
	if x.rounds != nil {
		x.scope.set(x.now(), tasks, attempts, allKinds)
		x.process(ctx, tasks, deletes, updates, func(ctx context.Context) {
			x.rounds.ProcessRound(ctx, txn, deletes, updates)
		})
		return
	}
	// Deletions first, to make room in targets that have a size.
	if len(deletes) > 0 {
		x.scope.set(x.now(), tasks, attempts, onlyDeletes)
		x.process(ctx, tasks, deletes, nil, func(ctx context.Context) {
			x.batches.DeleteBatch(ctx, txn, deletes)
		})
	}
	if len(updates) == 0 || ctx.Err() != nil || len(deletes) > 0 && further != nil && !further() {
		return
	}
	x.scope.set(x.now(), tasks, attempts, onlyUpdates)
	x.process(ctx, tasks, nil, updates, func(ctx context.Context) {
		x.batches.UpdateBatch(ctx, txn, updates)
	})
}

// split sorts tasks into entries. The slices are made anew for each round, since
// nothing keeps an operation from holding on to them.
func (x *batched[Obj]) split(tasks []task[Obj]) (deletes, updates []BatchEntry[Obj]) {
	numDeletes := 0
	for i := range tasks {
		if tasks[i].deleted {
			numDeletes++
		}
	}
	entries := make([]BatchEntry[Obj], len(tasks))
	deletes, updates = entries[:0:numDeletes], entries[numDeletes:numDeletes]
	sorted, last := true, statedb.Revision(0)
	for i := range tasks {
		t := &tasks[i]
		sorted, last = sorted && last < t.revision, t.revision
		t.err = errGoexit
		entry := BatchEntry[Obj]{Object: x.clone(t), Revision: t.revision, place: i + 1}
		t.err = errNotRun
		if t.deleted {
			deletes = append(deletes, entry)
		} else {
			updates = append(updates, entry)
		}
	}
	if !sorted {
		sortByRevision(deletes)
		sortByRevision(updates)
	}
	return deletes, updates
}

func sortByRevision[Obj any](batch []BatchEntry[Obj]) {
	slices.SortFunc(batch, func(a, b BatchEntry[Obj]) int { return cmp.Compare(a.Revision, b.Revision) })
}

// errNoEntry is what becomes of a task whose entry the operation did not leave in its
// batch.
var errNoEntry = errors.New("the operation removed or replaced the object's batch entry")

// process makes one call for the entries and hands their results to the tasks. The
// time taken is that of the call for each of them; metrics get it once, shared out
// between deletions and updates by their number.
func (x *batched[Obj]) process(ctx context.Context, tasks []task[Obj], deletes, updates []BatchEntry[Obj], call func(context.Context)) {
	batches := [...][]BatchEntry[Obj]{deletes, updates}
	// What failed in one call comes back in one call.
	jitter := rand.Float64()
	for _, batch := range batches {
		for i := range batch {
			t := &tasks[batch[i].place-1]
			t.object, t.err, t.jitter = batch[i].Object, errNoEntry, jitter
		}
	}
	// The operation may change its entries.
	firstDelete, firstUpdate := first(tasks, deletes), first(tasks, updates)
	started := x.now()
	x.scope.calling.Store(&calling{operation: operationOf(len(deletes), len(updates)), objects: len(deletes) + len(updates), since: started})
	timeout := x.timeout()
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	returned := false
	defer func() {
		x.scope.calling.Store(nil)
		for i := range tasks {
			if !returned && tasks[i].err == errNoEntry {
				tasks[i].err = errGoexit
			}
		}
	}()
	panicked := x.call(ctx, tasks, deletes, updates, call)
	took := x.now() - started

	total := len(deletes) + len(updates)
	if n := len(deletes); n > 0 {
		x.metrics.DeleteDuration(share(firstDelete, took, n, total))
	}
	if n := len(updates); n > 0 {
		x.metrics.UpdateDuration(share(firstUpdate, took, n, total))
	}
	for _, batch := range batches {
		for i := range batch {
			place := batch[i].place
			if place == 0 || tasks[place-1].err != errNoEntry {
				continue
			}
			t := &tasks[place-1]
			t.object, t.err, t.took = batch[i].Object, batch[i].Result, took
			if t.err == nil {
				t.err = panicked
			}
			err := x.explained(ctx, timeout, "batch", t.err)
			// The function that tells the class may end the goroutine.
			t.err = errGoexit
			t.err = kept(err, x.class)
		}
	}
	returned = true
}

// first returns the task of the first entry of a batch; nil if that is empty.
func first[Obj any](tasks []task[Obj], batch []BatchEntry[Obj]) *task[Obj] {
	if len(batch) == 0 {
		return nil
	}
	return &tasks[batch[0].place-1]
}

// share notes on the first task of its kind in a call which part of the time is its kind's,
// n of total objects.
func share[Obj any](first *task[Obj], took time.Duration, n, total int) time.Duration {
	first.call, first.share = true, took*time.Duration(n)/time.Duration(total)
	return first.share
}

// operationOf names a call for so many deletions and updates.
func operationOf(deletes, updates int) string {
	switch {
	case updates == 0:
		return OpDelete
	case deletes == 0:
		return OpUpdate
	}
	return "round"
}

func (x *batched[Obj]) call(ctx context.Context, tasks []task[Obj], deletes, updates []BatchEntry[Obj], call func(context.Context)) (err error) {
	defer x.recovered("batch", &err)
	operation, total := operationOf(len(deletes), len(updates)), len(deletes)+len(updates)
	info := func() OperationInfo {
		first := updates
		if len(deletes) > 0 {
			first = deletes
		}
		at := first[0].place - 1
		return x.info(&tasks[at], &x.attempts[at], operation, total)
	}
	return x.around(ctx, operation, info, func(ctx context.Context) error { call(ctx); return nil })
}
