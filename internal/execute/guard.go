// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/trace"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
)

// Recover is deferred around a call of a user's function, and stores a panic in err as an error. It
// does nothing if PanicPropagation is set.
func (c *Config[Obj]) Recover(operation string, err *error) {
	if c.PanicPropagation {
		return
	}
	if r := recover(); r != nil {
		c.Tally.Panics.Add(1)
		c.Log.Error("operation panicked",
			"operation", operation, "panic", text.Cut(outcome.TextOfAny(r), outcome.MaxText), "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in %s: %v", operation, r)
	}
}

// errDeadline is the cause of an operation's context that ended at the deadline of the operation. It
// tells this deadline from one of the program's context.
var errDeadline = fmt.Errorf("the timeout of the operation: %w", context.DeadlineExceeded)

// bounded returns ctx with the deadline of an operation; ctx itself if timeout is 0.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, errDeadline)
}

// withDeadline adds to an ordinary error that the deadline has passed, and counts it. It returns
// other outcomes as they are.
func (c *Config[Obj]) withDeadline(ctx context.Context, timeout time.Duration, operation string, err error) error {
	if err == nil || timeout == 0 || context.Cause(ctx) != errDeadline || outcome.Of(err) != nil {
		return err
	}
	c.Tally.Timeouts.Add(1)
	return &timeoutError{operation, timeout, err}
}

// timeoutError is the error of an operation that failed, with any error, after its deadline.
type timeoutError struct {
	operation string
	timeout   time.Duration
	err       error
}

func (t *timeoutError) Error() string {
	return fmt.Sprintf("%s timed out after %s: %v", t.operation, t.timeout, t.err)
}

func (t *timeoutError) Unwrap() error { return t.err }

// Is makes errors.Is true for [context.DeadlineExceeded].
func (t *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// around calls an operation in a region of package runtime/trace, between the two calls of the hook.
func (x *Executor[Obj]) around(ctx context.Context, operation string, op *core.Operation[Obj], objects int, call func(context.Context) error) error {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, operation).End()
	}
	if x.Hook == nil {
		return call(ctx)
	}
	hooked, end := x.Hook(ctx, Call{
		Reconciler: x.ID, Operation: operation, Objects: objects, Key: x.Rows.Name(op.Row), Revision: op.RowRevision, Attempt: int(op.Failures) + 1,
	})
	if hooked == nil {
		hooked = ctx
	}
	err := call(hooked)
	if end != nil {
		end(err)
	}
	return err
}
