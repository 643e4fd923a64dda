// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"runtime/trace"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

// turn is a turn of single operations: they run one after the other on the goroutine of the caller.
type turn[Obj any] struct {
	// began is when the turn began. at is when the last operation ended, or the caller did something else.
	began, at time.Duration
	// first is where the operations of the scope begin.
	first *core.Operation[Obj]
}

// BeginTurn begins a turn. The caller ends it with [Executor.EndTurn].
func (x *Executor[Obj]) BeginTurn() {
	now := x.Now()
	x.turn = turn[Obj]{began: now, at: now}
}

// EndTurn ends a turn.
func (x *Executor[Obj]) EndTurn() {
	x.Leave()
	x.turn = turn[Obj]{}
}

// Leave is called before the operations of a turn move to other memory: a goroutine that an operation has left
// behind may still write its note.
func (x *Executor[Obj]) Leave() {
	if x.turn.first != nil {
		x.Scope.set(0, nil, allKinds)
		x.turn.first = nil
	}
}

// Took returns how long the turn has taken, up to the end of its last operation.
func (x *Executor[Obj]) Took() time.Duration { return x.turn.at - x.turn.began }

// Resume is called before the next operation of a turn if something else took time since the last one: otherwise
// that counts as time of the operation.
func (x *Executor[Obj]) Resume() { x.turn.at = x.Now() }

// RunNext runs the last one of the operations of a turn; its Err is [ErrNotRun] before.
func (x *Executor[Obj]) RunNext(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj]) {
	i := len(ops) - 1
	op := &ops[i]
	if x.turn.first != &ops[0] {
		x.turn.first = &ops[0]
		x.Scope.set(x.turn.began, ops[:cap(ops)], allKinds)
	}
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
	op.Took = ended - x.turn.at
	op.FirstOfCall, op.Share = true, op.Took
	x.turn.at = ended
	if op.Deleted {
		x.metrics.DeleteDuration(op.Took)
	} else {
		x.metrics.UpdateDuration(op.Took)
	}
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
