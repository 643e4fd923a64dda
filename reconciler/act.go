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
	// once ctx has ended, and may stop early for others to have their turn. Of those it
	// returns, some may be errNotRun. The attempts are those of the tasks; checkpoints
	// move them along.
	execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj]) int
}

// guard is what every call of a user's operation goes through: it measures, bounds
// the time and turns a panic into an error.
type guard struct {
	log     *slog.Logger
	timeout func() time.Duration
	metrics metrics.Handle
	now     func() time.Duration
	// panics: they are not to be turned into errors.
	panics bool
}

// recovered is to be deferred around a call; it puts a panic in err.
func (g *guard) recovered(operation string, err *error) {
	if g.panics {
		return
	}
	if r := recover(); r != nil {
		g.log.Error("operation panicked",
			"operation", operation, "panic", r, "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in %s: %v", operation, r)
	}
}

// errDeadline is why the context of an operation ended at its deadline, and not at that of
// the program.
var errDeadline = fmt.Errorf("the timeout of the operation: %w", context.DeadlineExceeded)

// bounded returns ctx with the deadline for an operation, if there is one.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, errDeadline)
}

// explained returns err, naming the deadline if that has passed.
func explained(ctx context.Context, timeout time.Duration, operation string, err error) error {
	if err == nil || timeout == 0 || context.Cause(ctx) != errDeadline || directiveOf(err) != nil {
		return err
	}
	return &timeoutError{operation, timeout, err}
}

// timeoutError is that an operation failed after its deadline, with whatever error.
type timeoutError struct {
	operation string
	timeout   time.Duration
	err       error
}

func (t *timeoutError) Error() string {
	return fmt.Sprintf("%s timed out after %s: %v", t.operation, t.timeout, t.err)
}

func (t *timeoutError) Unwrap() error { return t.err }

// Is makes it a context.DeadlineExceeded.
func (t *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// turn is how long an in-line executor goes on with one round, so that slow
// operations do not keep the statuses of the finished ones, and what came in
// meanwhile, waiting for the rest of the round.
const turn = 5 * time.Millisecond

// inline runs operations one at a time.
type inline[Obj comparable] struct {
	guard
	ops   Operations[Obj]
	clone func(*task[Obj]) Obj
	scope *scope[Obj]
	// admit reports whether another operation is within the limit on their rate.
	admit func() bool
}

func (x *inline[Obj]) execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj]) int {
	started := x.now()
	end := started + turn
	timeout := x.timeout()
	x.scope.set(tasks, attempts)
	defer x.scope.set(nil, nil)
	for i := range tasks {
		if ctx.Err() != nil || started >= end || !x.admit() {
			return i
		}
		t := &tasks[i]
		x.scope.at.Store(int32(i))
		x.attempt(ctx, txn, t, timeout)
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

func (x *inline[Obj]) attempt(ctx context.Context, txn statedb.ReadTxn, t *task[Obj], timeout time.Duration) {
	operation := OpDelete
	if !t.deleted {
		operation = OpUpdate
		t.object = x.clone(t)
	}
	if timeout == 0 {
		t.err = x.call(ctx, txn, operation, t)
		return
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	t.err = explained(ctx, timeout, operation, x.call(ctx, txn, operation, t))
}

func (x *inline[Obj]) call(ctx context.Context, txn statedb.ReadTxn, operation string, t *task[Obj]) (err error) {
	defer x.recovered(operation, &err)
	if t.deleted {
		return x.ops.Delete(ctx, txn, t.revision, t.object)
	}
	return x.ops.Update(ctx, txn, t.revision, t.object)
}
