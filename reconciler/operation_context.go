// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// What an operation may call while it runs, and the hook around it.

var (
	// ErrConflict is returned by [Checkpoint] when the object was changed or deleted
	// since the operation was handed it.
	ErrConflict = execute.ErrConflict
	// ErrNoOperation is returned by [Checkpoint] outside of an update.
	ErrNoOperation = execute.ErrNoOperation
)

// Checkpoint writes the object that an update was handed into the table, as the update
// has changed it so far, for what must not be forgotten if the program ends here, such
// as that a resource is about to be created. It is called in the middle of an update,
// single or of a batch, with the context of that call and the object or a copy of it, any
// number of times and from any goroutine, but not after the call has returned, nor while
// holding a write transaction of the table. The object's status stays the one that asks
// for the update, and the outcome is written onto it later. What is written is a clone:
// the update may go on changing its object.
//
// The error is [ErrConflict] if the object in the table is not the one that the update
// was handed: then nothing is written, and the update should give up, and return the
// error: it will be called with the new version. If only another reconciler's status was written, the
// two are merged with the function of [Config].Merge; without one that is a conflict, too.
// It is [ErrNoOperation] if ctx is not that of an update, or obj not an object of it, or if the
// call has returned while the checkpoint waited for the table.
func Checkpoint[Obj comparable](ctx context.Context, obj Obj) error {
	return execute.Checkpoint(ctx, obj)
}

// MaxNote is how many bytes of a [Note] are kept. What is longer is cut, and ends in "…".
const MaxNote = execute.MaxNote

// Note attaches a short text to the operation that is running, for people to read: it is in
// [inspect.Operation].Note, and so in [Loop.Explain] and the journal. It says
// what an operation did on its way, such as the steps that it took; what came of it is for
// the error. Of several notes of one operation the last counts, an empty text takes it back.
//
// It is called inside an update or a deletion of [Operations] with the context of the call,
// from any goroutine, but not after the call has returned: it might then be another's note.
// In a call for several objects it does nothing; that is for [NoteOn]. Outside of an
// operation it does nothing. Operations that make no notes pay nothing for them.
func Note(ctx context.Context, text string) { execute.Note(ctx, text) }

// NoteOn is [Note] for one object of a call for several, as those of [BatchOperations] and
// [RoundOperations]: obj is the one that the call was handed, or a copy of it. It works for
// a single object, too. It does nothing if obj is not an object of the call.
func NoteOn[Obj comparable](ctx context.Context, obj Obj, text string) {
	execute.NoteOn(ctx, obj, text)
}

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

// hookCall calls the hook of the program, with the name of the reconciler.
func (o *options) hookCall(id inspect.ID) func(context.Context, execute.Call) (context.Context, func(error)) {
	if o.hook == nil {
		return nil
	}
	return func(ctx context.Context, c execute.Call) (context.Context, func(error)) {
		return o.hook(ctx, OperationInfo{
			Reconciler: id, Operation: c.Operation, Objects: c.Objects,
			Key: c.Key, Revision: c.Revision, Attempt: c.Attempt,
		})
	}
}

// Need looks up an object that an operation depends on, in any table and by any index, and
// returns it if it is there and all ready functions, if any, return true for it. Otherwise
// it returns the zero object and a [Blocked] error, for the operation to return as it is,
// wrapped or joined. The text is what is needed, such as "device eth0", and that it "is
// missing" or "is not ready".
//
// The operation is run again when the result of the look-up changes, and now and then
// when a row near it in the index does: so it is once with every change of a row that is
// not ready. It is not run again when the row changes or disappears after the operation
// is done. For no wake-up to be lost, txn has to be the transaction that the operation was
// given; one that is given none, as that of a request, passes the one that it reads in. Where
// several rows match the query, the first counts, and any of them wakes.
//
// Need may be called from any goroutine. The ready functions get the row itself, and must
// not change it.
func Need[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], query statedb.Query[Obj], what string, ready ...func(obj Obj) bool) (Obj, error) {
	obj, _, watch, found := table.GetWatch(txn, query)
	var none Obj
	if !found {
		return none, Blocked(what+" is missing", watch)
	}
	for _, isReady := range ready {
		if !isReady(obj) {
			return none, Blocked(what+" is not ready", watch)
		}
	}
	return obj, nil
}
