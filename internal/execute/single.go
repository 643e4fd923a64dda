// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"runtime/trace"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/outcome"
)

// runSingle runs tasks one at a time.
func (x *Executor[Obj]) runSingle(ctx context.Context, txn statedb.ReadTxn, tasks []Task[Obj]) {
	x.started = x.Now()
	x.began = x.started
	x.Scope.set(x.started, tasks, allKinds)
	defer x.Scope.set(0, nil, allKinds)
	last := len(tasks) - 1
	for i := range last {
		if !x.runOne(ctx, txn, tasks, i) {
			return
		}
	}
	// The last task is outside the loop, so that the transaction is not kept in memory during its
	// call.
	x.runOne(ctx, txn, tasks, last)
}

// runOne runs one task, and reports whether it ran.
func (x *Executor[Obj]) runOne(ctx context.Context, txn statedb.ReadTxn, tasks []Task[Obj], i int) bool {
	if ctx.Err() != nil || x.started-x.began >= x.Turn || !x.Admit() {
		return false
	}
	t := &tasks[i]
	x.Scope.at.Store(int32(i))
	t.Err = ErrGoexit
	if !t.Deleted {
		t.Object = t.clone(x.Rows)
	}
	if x.Hook == nil && !trace.IsEnabled() {
		x.attempt(ctx, txn, t)
	} else {
		x.attemptWatched(ctx, txn, t)
	}
	if err := t.Err; err != nil {
		// The Class function is the user's, and may end the goroutine, too.
		t.Err = ErrGoexit
		t.Err = outcome.Keep(err, x.Class)
	}
	// The clock is read once an operation: the end of one is the start of the next.
	ended := x.Now()
	t.Took = ended - x.started
	t.FirstOfCall, t.Share = true, t.Took
	x.started = ended
	if t.Deleted {
		x.metrics.DeleteDuration(t.Took)
	} else {
		x.metrics.UpdateDuration(t.Took)
	}
	return true
}

// attemptWatched is attempt with the hook and a trace region.
func (x *Executor[Obj]) attemptWatched(ctx context.Context, txn statedb.ReadTxn, t *Task[Obj]) {
	call := func() (err error) {
		defer x.Recover(t.Operation(), &err)
		return x.around(ctx, t.Operation(), t, 1, func(ctx context.Context) error {
			x.attempt(ctx, txn, t)
			return t.Err
		})
	}
	t.Err = call()
}

func (x *Executor[Obj]) attempt(ctx context.Context, txn statedb.ReadTxn, t *Task[Obj]) {
	timeout := x.Timeout()
	if timeout == 0 {
		t.Err = x.callOne(ctx, txn, t)
		return
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	t.Err = x.withDeadline(ctx, timeout, t.Operation(), x.callOne(ctx, txn, t))
}

func (x *Executor[Obj]) callOne(ctx context.Context, txn statedb.ReadTxn, t *Task[Obj]) (err error) {
	defer x.Recover(t.Operation(), &err)
	if t.Deleted {
		return x.Single.Delete(ctx, txn, t.Revision, t.Object)
	}
	return x.Single.Update(ctx, txn, t.Revision, t.Object)
}
