// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/outcome"
)

// call makes a call of an operation in a region of package runtime/trace, between the two calls of the hook. op is
// the first operation of the call, label is the name of the call in errors.
func (x *Executor[Obj]) call(ctx context.Context, name, label string, op *core.Operation[Obj], objects int,
	f func(context.Context) error) (err error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, name).End()
	}
	if x.cfg.Hook == nil {
		return x.bounded(ctx, label, f)
	}
	defer x.cfg.Recover(label, &err)
	hooked, end := x.cfg.Hook(ctx, Call{
		Reconciler: x.cfg.ID, Operation: name, Objects: objects,
		Key: x.cfg.Rows.Name(op.Row), Revision: op.RowRevision, Attempt: int(op.Failures) + 1,
	})
	if hooked == nil {
		hooked = ctx
	}
	err = x.bounded(hooked, label, f)
	if end != nil {
		end(err)
	}
	return err
}

// errDeadline is the cause of an operation's context that ended at the deadline of the operation. It
// tells this deadline from one of the program's context.
var errDeadline = fmt.Errorf("the timeout of the operation: %w", context.DeadlineExceeded)

// bounded calls f within the deadline of an operation, and returns a panic as an error.
func (x *Executor[Obj]) bounded(ctx context.Context, label string, f func(context.Context) error) (err error) {
	x.late = 0
	if timeout := x.cfg.Timeout(); timeout > 0 {
		within, cancel := context.WithTimeoutCause(ctx, timeout, errDeadline)
		ctx = within
		defer func() {
			if context.Cause(within) == errDeadline {
				x.late = timeout
			}
			cancel()
			err = x.withDeadline(label, err)
		}()
	}
	defer x.cfg.Recover(label, &err)
	return f(ctx)
}

// Recover is deferred around a call of a user's function, and stores a panic in err as an error. It
// does nothing if PanicPropagation is set.
func (c *Config[Obj]) Recover(label string, err *error) {
	if c.PanicPropagation {
		return
	}
	if r := recover(); r != nil {
		c.Tally.Panics.Add(1)
		said := guard.Panicked(r, c.Log, "operation panicked", "operation", label)
		*err = fmt.Errorf("panic in %s: %s%s", label, said, placeOf(r))
	}
}

// libraries are the beginnings of the names of functions that are not those of the user.
var libraries = []string{"runtime.", "slices.", "github.com/cilium/statedb.", "github.com/statekeel/statekeel/reconciler.Need["}

// placeOf returns where the user's code caused a panic of the runtime, whose text does not say it. Recover calls it.
func placeOf(panicked any) string {
	if _, is := panicked.(runtime.Error); !is {
		return ""
	}
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	why := ""
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if strings.HasPrefix(f.Function, "github.com/cilium/statedb.Index[") && strings.HasSuffix(f.Function, ".Query") {
			why = "the index of a query has no FromKey, "
		}
		if !slices.ContainsFunc(libraries, func(name string) bool { return strings.HasPrefix(f.Function, name) }) {
			return fmt.Sprintf(" (%sat %s:%d)", why, filepath.Base(f.File), f.Line)
		}
	}
	return ""
}

// withDeadline adds to an ordinary error that the last call has ended after its deadline, and counts it. It
// returns other outcomes as they are.
func (x *Executor[Obj]) withDeadline(label string, err error) error {
	if err == nil || x.late == 0 || outcome.Of(err) != nil {
		return err
	}
	x.cfg.Tally.Timeouts.Add(1)
	return timeoutError{fmt.Errorf("%s timed out after %s: %w", label, x.late, err)}
}

// timeoutError is the error of an operation that failed, with any error, after its deadline.
type timeoutError struct{ error }

func (t timeoutError) Unwrap() error { return t.error }

// Is makes errors.Is true for [context.DeadlineExceeded].
func (t timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
