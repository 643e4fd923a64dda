// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/metrics"
)

// runBatch runs operations in one call, or in one call for the deletions and one for the updates.
func (x *Executor[Obj]) runBatch(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj], further func() bool) {
	defer x.Scope.set(0, nil, allKinds)
	deletes, updates := x.split(ops)
	if x.Rounds != nil {
		x.Scope.set(x.Now(), ops, allKinds)
		x.process(ctx, ops, deletes, updates, func(ctx context.Context) {
			x.Rounds.ProcessRound(ctx, txn, deletes, updates)
		})
		return
	}
	// Deletions come first, to make room in targets of limited size.
	if len(deletes) > 0 {
		x.Scope.set(x.Now(), ops, onlyDeletes)
		x.process(ctx, ops, deletes, nil, func(ctx context.Context) {
			x.Batches.DeleteBatch(ctx, txn, deletes)
		})
	}
	if len(updates) == 0 || ctx.Err() != nil || len(deletes) > 0 && further != nil && !further() {
		return
	}
	x.Scope.set(x.Now(), ops, onlyUpdates)
	x.process(ctx, ops, nil, updates, func(ctx context.Context) {
		x.Batches.UpdateBatch(ctx, txn, updates)
	})
}

// split returns entries for the deletions and for the updates, each in order of revision. The slices
// are not reused: an operation may keep them.
func (x *Executor[Obj]) split(ops []core.Operation[Obj]) (deletes, updates []BatchEntry[Obj]) {
	numDeletes := 0
	for i := range ops {
		if ops[i].Deleted {
			numDeletes++
		}
	}
	entries := make([]BatchEntry[Obj], len(ops))
	deletes, updates = entries[:0:numDeletes], entries[numDeletes:numDeletes]
	sorted, last := true, statedb.Revision(0)
	for i := range ops {
		op := &ops[i]
		sorted, last = sorted && last < op.RowRevision, op.RowRevision
		op.Err = ErrGoexit
		entry := BatchEntry[Obj]{Object: clone(x.Rows, op), Revision: op.RowRevision, place: i + 1}
		op.Err = ErrNotRun
		if op.Deleted {
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

// errNoEntry is the error of an object whose entry the call removed or replaced.
var errNoEntry = errors.New("the operation removed or replaced the object's batch entry")

// process makes one call for the entries, and copies their results to the operations. Took of each is
// the duration of the whole call. The metrics get that duration once, divided between deletions and
// updates by their number.
func (x *Executor[Obj]) process(ctx context.Context, ops []core.Operation[Obj], deletes, updates []BatchEntry[Obj], call func(context.Context)) {
	batches := [...][]BatchEntry[Obj]{deletes, updates}
	// Objects that failed in one call are retried in one call: they get the same jitter.
	jitter := rand.Float64()
	for _, batch := range batches {
		for i := range batch {
			op := &ops[batch[i].place-1]
			op.Object, op.Err, op.Jitter = batch[i].Object, errNoEntry, jitter
		}
	}
	// This is before the call, since the operation may change its entries.
	firstDelete, firstUpdate := first(ops, deletes), first(ops, updates)
	started := x.Now()
	x.Scope.Begin(operationOf(len(deletes), len(updates)), len(deletes)+len(updates), started)
	timeout := x.Timeout()
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	returned := false
	defer func() {
		x.Scope.End()
		for i := range ops {
			if !returned && ops[i].Err == errNoEntry {
				ops[i].Err = ErrGoexit
			}
		}
	}()
	panicked := x.callBatch(ctx, ops, deletes, updates, call)
	took := x.Now() - started

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
			if place == 0 || ops[place-1].Err != errNoEntry {
				continue
			}
			op := &ops[place-1]
			op.Object, op.Err, op.Took = batch[i].Object, batch[i].Result, took
			if op.Err == nil {
				op.Err = panicked
			}
			err := x.withDeadline(ctx, timeout, "batch", op.Err)
			// The Class function is the user's, and may end the goroutine.
			op.Err = ErrGoexit
			op.Err = outcome.Keep(err, x.Class)
		}
	}
	returned = true
}

// first returns the operation of the first entry of a batch, or nil if the batch is empty.
func first[Obj any](ops []core.Operation[Obj], batch []BatchEntry[Obj]) *core.Operation[Obj] {
	if len(batch) == 0 {
		return nil
	}
	return &ops[batch[0].place-1]
}

// share computes the part of a call's time that counts for n of its total objects, all of one kind.
// It stores it in the first operation of that kind, and returns it.
func share[Obj any](first *core.Operation[Obj], took time.Duration, n, total int) time.Duration {
	first.FirstOfCall, first.Share = true, took*time.Duration(n)/time.Duration(total)
	return first.Share
}

// operationOf returns the name of a call with the given numbers of deletions and updates.
func operationOf(deletes, updates int) string {
	switch {
	case updates == 0:
		return metrics.OpDelete
	case deletes == 0:
		return metrics.OpUpdate
	}
	return "round"
}

func (x *Executor[Obj]) callBatch(ctx context.Context, ops []core.Operation[Obj], deletes, updates []BatchEntry[Obj], call func(context.Context)) (err error) {
	defer x.Recover("batch", &err)
	first := updates
	if len(deletes) > 0 {
		first = deletes
	}
	return x.around(ctx, operationOf(len(deletes), len(updates)), &ops[first[0].place-1], len(deletes)+len(updates),
		func(ctx context.Context) (err error) {
			// This Recover is for the operation, so that the hook gets its panic; the other is for the hook.
			defer x.Recover("batch", &err)
			call(ctx)
			return nil
		})
}
