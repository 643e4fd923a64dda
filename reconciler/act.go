// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

// task is one operation for an executor: what to call with, and what came back.
type task[Obj any] struct {
	// object is the version to apply. An executor puts a clone in its place
	// before an update.
	object   Obj
	revision statedb.Revision
	deleted  bool
	// asked is what the status is to say on the clone, if not what it says in the
	// table: a retry is handed the status that asked for the work.
	asked status.Kind

	err  error
	took time.Duration
}

// errNotRun is the error of a task that an executor did not get to, though it got to a
// later one: the reconciler was stopped between the two calls of a round.
var errNotRun = errors.New("not run")

// executor moves the target. It knows nothing of tables and statuses.
type executor[Obj any] interface {
	// execute runs tasks in order and returns how many it ran. It starts nothing
	// once ctx has ended, and may stop early for others to have their turn; it
	// runs at least one otherwise. Of those it returns, some may be errNotRun.
	execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj]) int
}

// guard is what every call of a user's operation goes through: it measures, bounds
// the time and turns a panic into an error.
type guard struct {
	log     *slog.Logger
	timeout time.Duration
	metrics metrics.Handle
	now     func() time.Duration
}

// recovered is to be deferred around a call; it puts a panic in err.
func (g *guard) recovered(operation string, err *error) {
	if r := recover(); r != nil {
		g.log.Error("operation panicked",
			"operation", operation, "panic", r, "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in %s: %v", operation, r)
	}
}

// bounded returns ctx with the deadline for an operation, if there is one.
func (g *guard) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, g.timeout)
}

// explained returns err, naming the deadline if that has passed.
func (g *guard) explained(ctx context.Context, operation string, err error) error {
	if err == nil || g.timeout == 0 || ctx.Err() != context.DeadlineExceeded || directiveOf(err) != nil {
		return err
	}
	return fmt.Errorf("%s timed out after %s: %w", operation, g.timeout, err)
}

// turn is how long an in-line executor goes on with one round, so that slow
// operations do not keep the statuses of the finished ones, and the retries that came
// due meanwhile, waiting for the rest of the round.
const turn = 50 * time.Millisecond

// inline runs operations one at a time.
type inline[Obj any] struct {
	guard
	ops   Operations[Obj]
	clone func(*task[Obj]) Obj
}

func (x *inline[Obj]) execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj]) int {
	started := x.now()
	end := started + turn
	for i := range tasks {
		if ctx.Err() != nil || started >= end {
			return i
		}
		t := &tasks[i]
		x.attempt(ctx, txn, t)
		// One reading of the clock an operation: the end of one is the start of
		// the next.
		ended := x.now()
		t.took = ended - started
		started = ended
		if t.deleted {
			x.metrics.DeleteDuration(t.took)
		} else {
			x.metrics.UpdateDuration(t.took)
		}
	}
	return len(tasks)
}

func (x *inline[Obj]) attempt(ctx context.Context, txn statedb.ReadTxn, t *task[Obj]) {
	operation := OpDelete
	if !t.deleted {
		operation = OpUpdate
		t.object = x.clone(t)
	}
	if x.timeout == 0 {
		t.err = x.call(ctx, txn, operation, t)
	} else {
		t.err = x.callBounded(ctx, txn, operation, t)
	}
}

func (x *inline[Obj]) callBounded(ctx context.Context, txn statedb.ReadTxn, operation string, t *task[Obj]) error {
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	return x.explained(ctx, operation, x.call(ctx, txn, operation, t))
}

func (x *inline[Obj]) call(ctx context.Context, txn statedb.ReadTxn, operation string, t *task[Obj]) (err error) {
	defer x.recovered(operation, &err)
	if t.deleted {
		return x.ops.Delete(ctx, txn, t.revision, t.object)
	}
	return x.ops.Update(ctx, txn, t.revision, t.object)
}
