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
)

// runBatch runs operations in one call, or in one call for the deletions and one for the updates.
func (x *Executor[Obj]) runBatch(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj], further func() bool) {
	defer x.Scope.Set(Calling[Obj]{})
	called, hangs, may := false, false, func() bool { return ctx.Err() == nil && (further == nil || further()) }
	for i := range ops {
		switch op := &ops[i]; {
		case op.Turn.Looks && hangs:
			// Each look would take as long, and others wait for the batch: it counts as one that has failed.
			op.Run.Look = &core.Look{}
		case op.Turn.Looks || op.FoundRight() || op.Turn.Cause == core.CauseAdopted:
			if called && op.Turn.Looks && !may() {
				return
			}
			x.ready(ctx, txn, op)
			called, hangs = called || op.Turn.Looks, hangs || op.Turn.Looks && x.late > 0
		}
	}
	if called && !may() {
		return
	}
	defer func() {
		x.late = 0
		for i := 0; i < len(ops) && x.late == 0; i++ {
			x.lookAgain(ctx, &ops[i], further)
		}
	}()
	entries := x.addEntries(make([]BatchEntry[Obj], 0, len(ops)), ops, true)
	n := len(entries)
	entries = x.addEntries(entries, ops, false)
	deletes, updates := entries[:n:n], entries[n:]
	switch {
	case len(entries) == 0:
		return
	case x.cfg.Rounds != nil:
		x.process(ctx, ops, entries, n, func(ctx context.Context) { x.cfg.Rounds.ProcessRound(ctx, txn, deletes, updates) })
		return
	}
	// Deletions come first, to make room in targets of limited size.
	if n > 0 {
		x.process(ctx, ops, deletes, n, func(ctx context.Context) { x.cfg.Batches.DeleteBatch(ctx, txn, deletes) })
	}
	if len(updates) == 0 || ctx.Err() != nil || n > 0 && further != nil && !further() {
		return
	}
	x.process(ctx, ops, updates, 0, func(ctx context.Context) { x.cfg.Batches.UpdateBatch(ctx, txn, updates) })
}

// addEntries appends entries for the deletions or the updates that are to be called, in order of revision. They are
// not reused: an operation may keep them. What was to be verified, and was not looked at, is left for a later round.
func (x *Executor[Obj]) addEntries(entries []BatchEntry[Obj], ops []core.Operation[Obj], deleted bool) []BatchEntry[Obj] {
	first := len(entries)
	for i := range ops {
		op := &ops[i]
		if op.Deleted == deleted && op.Run.Err == ErrNotRun && (op.Turn.Cause != core.CauseVerify || op.Run.Look.Before.Seen) {
			op.Run.Err = ErrGoexit
			entries = append(entries, BatchEntry[Obj]{Object: clone(x.cfg.Rows, op), Revision: op.RowRevision, place: i + 1})
			op.Run.Err = ErrNotRun
		}
	}
	slices.SortFunc(entries[first:], func(a, b BatchEntry[Obj]) int { return cmp.Compare(a.Revision, b.Revision) })
	return entries
}

// opRound is the name of a call with deletions and updates.
const opRound = "round"

// errNoEntry is the error of an object whose entry the call removed or replaced.
var errNoEntry = errors.New("the operation removed or replaced the object's batch entry")

// process makes one call for entries, of which the first are deletions, and copies their results to the
// operations. Took of each is the duration of the whole call. The metrics get that duration once, divided between
// deletions and updates by their number.
func (x *Executor[Obj]) process(ctx context.Context, ops []core.Operation[Obj], entries []BatchEntry[Obj], deletes int, call func(context.Context)) {
	// Objects that failed in one call are retried in one call: they get the same jitter.
	jitter := rand.Float64()
	for i := range entries {
		op := &ops[entries[i].place-1]
		op.Outcome.Object, op.Run.Err, op.Outcome.Jitter = entries[i].Object, ErrGoexit, jitter
	}
	// This is before the call, since the operation may change its entries.
	total, first := len(entries), &ops[entries[0].place-1]
	firstUpdate, name := first, NameOf(deletes > 0)
	if deletes > 0 && deletes < total {
		firstUpdate, name = &ops[entries[deletes].place-1], opRound
	}
	started := x.cfg.Now()
	x.Scope.Set(Calling[Obj]{Operation: name, Objects: total, Since: started, ops: ops})
	panicked := x.call(ctx, name, "batch", first, total, func(ctx context.Context) error {
		call(ctx)
		return nil
	})
	took := x.cfg.Now() - started

	if deletes > 0 {
		x.measure(first, took*time.Duration(deletes)/time.Duration(total))
	}
	if deletes < total {
		x.measure(firstUpdate, took*time.Duration(total-deletes)/time.Duration(total))
	}
	for i := range entries {
		place := entries[i].place
		if place == 0 || ops[place-1].Run.Err != ErrGoexit {
			continue
		}
		op := &ops[place-1]
		op.Outcome.Object, op.Run.Took = entries[i].Object, took
		x.keep(op, cmp.Or(x.withDeadline("batch", entries[i].Result), panicked))
	}
	for i := range ops {
		if ops[i].Run.Err == ErrGoexit {
			ops[i].Run.Err = errNoEntry
		}
	}
}
