// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"runtime/trace"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

// runSingle runs operations one at a time.
func (x *Executor[Obj]) runSingle(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj]) {
	x.started = x.Now()
	x.began = x.started
	x.Scope.set(x.started, ops, allKinds)
	defer x.Scope.set(0, nil, allKinds)
	last := len(ops) - 1
	for i := range last {
		if !x.runOne(ctx, txn, ops, i) {
			return
		}
	}
	// The last one is outside the loop, so that the transaction is not kept in memory during its
	// call.
	x.runOne(ctx, txn, ops, last)
}

// runOne runs one operation, and reports whether it ran.
func (x *Executor[Obj]) runOne(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj], i int) bool {
	if ctx.Err() != nil || x.started-x.began >= x.Turn || !x.Admit() {
		return false
	}
	op := &ops[i]
	x.Scope.at.Store(int32(i))
	op.Err = ErrGoexit
	if !op.Deleted {
		op.Object = clone(x.Rows, op)
	}
	if x.Hook == nil && !trace.IsEnabled() {
		x.attempt(ctx, txn, op)
	} else {
		x.attemptWatched(ctx, txn, op)
	}
	if err := op.Err; err != nil {
		// The Class function is the user's, and may end the goroutine, too.
		op.Err = ErrGoexit
		op.Err = outcome.Keep(err, x.Class)
	}
	// The clock is read once an operation: the end of one is the start of the next.
	ended := x.Now()
	op.Took = ended - x.started
	op.FirstOfCall, op.Share = true, op.Took
	x.started = ended
	if op.Deleted {
		x.metrics.DeleteDuration(op.Took)
	} else {
		x.metrics.UpdateDuration(op.Took)
	}
	return true
}

// attemptWatched is attempt with the hook and a trace region.
func (x *Executor[Obj]) attemptWatched(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj]) {
	call := func() (err error) {
		defer x.Recover(NameOf(op.Deleted), &err)
		return x.around(ctx, NameOf(op.Deleted), op, 1, func(ctx context.Context) error {
			x.attempt(ctx, txn, op)
			return op.Err
		})
	}
	op.Err = call()
}

func (x *Executor[Obj]) attempt(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj]) {
	timeout := x.Timeout()
	if timeout == 0 {
		op.Err = x.callOne(ctx, txn, op)
		return
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	op.Err = x.withDeadline(ctx, timeout, NameOf(op.Deleted), x.callOne(ctx, txn, op))
}

func (x *Executor[Obj]) callOne(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj]) (err error) {
	defer x.Recover(NameOf(op.Deleted), &err)
	if op.Deleted {
		return x.Single.Delete(ctx, txn, op.RowRevision, op.Object)
	}
	return x.Single.Update(ctx, txn, op.RowRevision, op.Object)
}
