// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"runtime/trace"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/text"
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
	// merged: the row in the table has more than object, since a checkpoint was merged
	// with what another reconciler had written.
	merged bool

	// err is what came of it: errNotRun until it is run, errGoexit if it never came back.
	err  error
	took time.Duration
	// call: it was the first of a call of its kind of operation, which took share.
	call  bool
	share time.Duration
	// jitter is how much of the jitter its next wait is shortened by, the same for all
	// objects of a call; 0 if it was a call of its own, for which one is drawn.
	jitter float64
}

// operation returns OpUpdate or OpDelete.
func (t *task[Obj]) operation() string {
	if t.deleted {
		return OpDelete
	}
	return OpUpdate
}

var (
	// errNotRun is the error of a task that an executor did not get to.
	errNotRun = errors.New("not run")
	// errGoexit is that of an operation which ended its goroutine, as FailNow of a test does.
	errGoexit = errors.New("the operation called runtime.Goexit")
)

// executor moves the target. It knows nothing of tables and statuses.
type executor[Obj any] interface {
	// execute runs tasks in order, each of which is errNotRun before. It starts nothing
	// once ctx has ended, and may stop early for others to have their turn. The attempts
	// are those of the tasks; checkpoints move them along. further is called before each
	// call but the first, and reports whether that may begin; nil: it may. If an operation
	// ends the goroutine, the tasks say how far it came.
	execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj], further func() bool)
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
	tally  *tally
	// hook is that of WithOperationHook; nil if there is none.
	hook OperationHook
	// class returns the class of an error, by the function of the user.
	class func(error) string
}

// recovered is to be deferred around a call; it puts a panic in err.
func (g *guard) recovered(operation string, err *error) {
	if g.panics {
		return
	}
	if r := recover(); r != nil {
		g.tally.panics.Add(1)
		g.log.Error("operation panicked",
			"operation", operation, "panic", text.Cut(textOfAny(r), MaxErrorText), "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in %s: %v", operation, r)
	}
}

// protected calls f and turns a panic into an error.
func (g *guard) protected(operation string, f func() error) (err error) {
	defer g.recovered(operation, &err)
	return f()
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
func (g *guard) explained(ctx context.Context, timeout time.Duration, operation string, err error) error {
	if err == nil || timeout == 0 || context.Cause(ctx) != errDeadline || directiveOf(err) != nil {
		return err
	}
	g.tally.timeouts.Add(1)
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

// inline runs operations one at a time.
type inline[Obj comparable] struct {
	guard
	ops   Operations[Obj]
	clone func(*task[Obj]) Obj
	scope *scope[Obj]
	info  func(t *task[Obj], a *attempt[Obj], operation string, objects int) OperationInfo
	// admit reports whether another operation is within the limit on their rate.
	admit func() bool
	// turn is how long to go on with one round.
	turn time.Duration
	// started is when the operation began that is being run, end when no other begins.
	started, end time.Duration
}

func (x *inline[Obj]) execute(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj], _ func() bool) {
	x.started = x.now()
	x.end = x.started + x.turn
	x.scope.set(x.started, tasks, attempts, allKinds)
	defer x.scope.set(0, nil, nil, allKinds)
	last := len(tasks) - 1
	for i := range last {
		if !x.run(ctx, txn, tasks, attempts, i) {
			return
		}
	}
	// The last one is not in the loop, which would keep the transaction meanwhile.
	x.run(ctx, txn, tasks, attempts, last)
}

// run runs one task, and reports whether it did.
func (x *inline[Obj]) run(ctx context.Context, txn statedb.ReadTxn, tasks []task[Obj], attempts []attempt[Obj], i int) bool {
	if ctx.Err() != nil || x.started >= x.end || !x.admit() {
		return false
	}
	t := &tasks[i]
	x.scope.at.Store(int32(i))
	t.err = errGoexit
	if !t.deleted {
		t.object = x.clone(t)
	}
	if x.hook == nil && !trace.IsEnabled() {
		x.attempt(ctx, txn, t)
	} else {
		x.watched(ctx, txn, t, &attempts[i])
	}
	if err := t.err; err != nil {
		// The function that tells the class may end the goroutine, too.
		t.err = errGoexit
		t.err = kept(err, x.class)
	}
	// One reading of the clock an operation: the end of one is the start of the next.
	ended := x.now()
	t.took = ended - x.started
	t.call, t.share = true, t.took
	x.started = ended
	if t.deleted {
		x.metrics.DeleteDuration(t.took)
	} else {
		x.metrics.UpdateDuration(t.took)
	}
	return true
}

// watched is attempt for those who watch: it costs more.
func (x *inline[Obj]) watched(ctx context.Context, txn statedb.ReadTxn, t *task[Obj], a *attempt[Obj]) {
	info := func() OperationInfo { return x.info(t, a, t.operation(), 1) }
	t.err = x.protected(t.operation(), func() error {
		return x.around(ctx, t.operation(), info, func(ctx context.Context) error {
			x.attempt(ctx, txn, t)
			return t.err
		})
	})
}

func (x *inline[Obj]) attempt(ctx context.Context, txn statedb.ReadTxn, t *task[Obj]) {
	timeout := x.timeout()
	if timeout == 0 {
		t.err = x.call(ctx, txn, t)
		return
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	t.err = x.explained(ctx, timeout, t.operation(), x.call(ctx, txn, t))
}

func (x *inline[Obj]) call(ctx context.Context, txn statedb.ReadTxn, t *task[Obj]) (err error) {
	defer x.recovered(t.operation(), &err)
	if t.deleted {
		return x.ops.Delete(ctx, txn, t.revision, t.object)
	}
	return x.ops.Update(ctx, txn, t.revision, t.object)
}
