// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"runtime/trace"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// OperationInfo says which call of an operation is about to be made.
type OperationInfo struct {
	// Reconciler is the one that makes it.
	Reconciler inspect.ID
	// Operation is "update" or "delete", or "round" for a call of [RoundOperations].
	Operation string
	// Objects is how many objects the call is for: 1, unless it is for a batch.
	Objects int
	// Key is the text of the key of the object, or of the first of a batch; Revision and
	// Attempt are that one's: the version that is applied, and the attempt, counted from 1.
	Key      string
	Revision statedb.Revision
	Attempt  int
}

// OperationHook is called before each call of an operation. The context that it returns is
// handed to the operation, and the function that it returns is called afterwards with the
// error of the operation, nil for a batch; it may be nil. It is called by the goroutine that
// runs the operation, by several at once with [Settings].Concurrency. A panic of it is one of the
// operation.
type OperationHook func(ctx context.Context, op OperationInfo) (context.Context, func(err error))

// WithOperationHook makes hook be called around each update and deletion: for a span of
// OpenTelemetry, say, which the operation finds in its context. nil, the default, costs
// nothing.
func WithOperationHook(hook OperationHook) Option {
	return func(o *options) { o.hook = hook }
}

// around calls an operation between the two calls of the hook, and in a region of package
// runtime/trace.
func (g *guard) around(ctx context.Context, operation string, info func() OperationInfo, call func(context.Context) error) error {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, operation).End()
	}
	if g.hook == nil {
		return call(ctx)
	}
	hooked, end := g.hook(ctx, info())
	if hooked == nil {
		hooked = ctx
	}
	err := call(hooked)
	if end != nil {
		end(err)
	}
	return err
}

// operationInfo says for a hook what is about to be called.
func (l *Loop[Obj]) operationInfo(t *task[Obj], a *attempt[Obj], operation string, objects int) OperationInfo {
	return OperationInfo{
		Reconciler: l.ID(), Operation: operation, Objects: objects,
		Key: l.rows.Name(a.row), Revision: t.revision, Attempt: int(a.number),
	}
}
