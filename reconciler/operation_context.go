// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Functions that an operation may call while it runs, and the hook around it.

var (
	// ErrConflict is returned by [Checkpoint] when the object was changed or deleted since the
	// operation got it.
	ErrConflict = execute.ErrConflict
	// ErrNoOperation is returned by [Checkpoint] outside of an update of the object.
	ErrNoOperation = execute.ErrNoOperation
)

// Checkpoint writes the object of a running update into the table, with the changes that the update
// has made so far. It is for facts that must survive if the program ends now, such as that a resource
// is about to be created.
//
// Call it within an update, single or of a batch, with the context of the call and the object or a
// copy of it. It may be called any number of times and from any goroutine, but not after the update
// has returned, and not while holding a write transaction of the table. The status of the object does
// not change; the outcome is written later. A clone is written, so the update may go on changing its
// object.
//
// The error is [ErrConflict] if the row is no longer the one that the update got. Nothing is written
// then, and the update should return the error: it will be called with the new version. If only
// another reconciler's status was written, the two are merged by [Config].Merge; without Merge this
// is a conflict too. The error is [ErrNoOperation] if ctx is not that of an update, if obj is not an
// object of it, or if the update returned while the checkpoint waited for the table. It is
// [ErrNotWritable] if the rows carry no status.
func Checkpoint[Obj comparable](ctx context.Context, obj Obj) error {
	return execute.Checkpoint(ctx, obj)
}

// MaxNote is the number of bytes (1 KiB) of a [Note] that are kept. A longer text is cut, and ends in
// "…".
const MaxNote = execute.MaxNote

// Note attaches a short text to the running operation, for people to read: [inspect.Operation].Note
// has it, and so do [Loop.Explain] and the journal. It tells what the operation did, such as the
// steps that it took; the result belongs in the error. The last note of an operation counts; an empty
// text removes it.
//
// Call it within an update or a deletion of [Operations], with the context of the call, from any
// goroutine, but not after the call has returned: the note might be attached to another operation. It
// does nothing outside of an operation, and in a call for several objects, where [NoteOn] is used.
func Note(ctx context.Context, text string) { execute.Note(ctx, text) }

// NoteOn attaches a note as [Note] does, to one object of a call of [BatchOperations] or
// [RoundOperations]. obj is the object of the call, or a copy of it. It works for a single object,
// too. It does nothing if obj is not an object of the call.
func NoteOn[Obj comparable](ctx context.Context, obj Obj, text string) {
	execute.NoteOn(ctx, obj, text)
}

// OperationInfo describes a call of an operation that is about to be made.
type OperationInfo struct {
	// Reconciler is the ID of the reconciler that makes the call.
	Reconciler inspect.ID
	// Operation is "update", "delete", or "round" for a call of [RoundOperations] with both.
	Operation string
	// Objects is the number of objects of the call: 1 unless it is a batch.
	Objects int
	// Key is the text of the key of the object, Revision the version that is applied, and Attempt the
	// number of the attempt, counted from 1. For a batch they are those of the first object.
	Key      string
	Revision statedb.Revision
	Attempt  int
}

// OperationHook is called before each call of an operation. The operation gets the context that it
// returns. The function that it returns, which may be nil, is called after the operation, with its
// error; for a batch that is nil unless it panics.
//
// The goroutine that runs the operation calls both; with workers ([Settings].Concurrency) these are
// several at once. A panic of the hook counts as a panic of the operation.
type OperationHook func(ctx context.Context, op OperationInfo) (context.Context, func(err error))

// hookCall adapts the hook of the program to the executor; nil if there is none.
func hookCall(hook OperationHook, id inspect.ID) func(context.Context, execute.Call) (context.Context, func(error)) {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, c execute.Call) (context.Context, func(error)) {
		return hook(ctx, OperationInfo{
			Reconciler: id, Operation: c.Operation, Objects: c.Objects,
			Key: c.Key, Revision: c.Revision, Attempt: c.Attempt,
		})
	}
}

// Need looks up an object that an operation depends on, in any table and by any index. It returns the
// object if it exists and all ready functions, if any, return true for it. Otherwise it returns the
// zero object and a [Blocked] error, which the operation returns as it is, wrapped or joined. The
// text of the error is what, such as "device eth0", and "is missing" or "is not ready".
//
// The operation runs again when the result of the query changes, and sometimes when a row near it in
// the index changes. So it runs once for every change of a row that is not ready. It does not run
// again for changes of the row after the operation is done: that is what package trigger is for. If
// an object uses both Need and a trigger on the same table, a change of the row may run the operation
// twice, once for each.
//
// txn has to be the transaction that the operation was given; otherwise a wake-up may be lost. An
// operation that is given none, such as a request, passes the transaction that it reads in. If
// several rows match the query, the first one counts, and a change of any of them wakes the
// operation.
//
// Need may be called from any goroutine. The ready functions get the row itself, and must not change
// it.
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
