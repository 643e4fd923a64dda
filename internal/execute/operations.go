// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"errors"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

// NameOf returns [metrics.OpDelete] or [metrics.OpUpdate].
func NameOf(deleted bool) string {
	if deleted {
		return metrics.OpDelete
	}
	return metrics.OpUpdate
}

// clone returns the copy of an operation's object for the call. If the row is no longer Pending or Refreshing,
// a copy for a retry gets the kind that asked for the work.
func clone[Obj any](r *rows.Rows[Obj], op *core.Operation[Obj]) Obj {
	object, asked := r.Copy(op.Outcome.Object), status.Kind(op.Outcome.RowKind)
	if op.Deleted || asked == status.KindUnset || r.Writable == nil {
		return object
	}
	s := r.Writable.GetStatus(object)
	if s.IsPendingOrRefreshing() {
		return object
	}
	s.Kind, s.Error = asked, nil
	return r.Writable.SetStatus(object, s)
}

var (
	// ErrNotRun is the error of an operation that the executor has not run.
	ErrNotRun = errors.New("not run")
	// ErrGoexit is the error of an operation that ended its goroutine, as FailNow of a test does.
	ErrGoexit = errors.New("the operation called runtime.Goexit")
)

// Operations are called for one object at a time.
type Operations[Obj any] interface {
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error
}

// BatchOperations are called for many objects at a time, with separate calls for deletions and
// updates.
type BatchOperations[Obj any] interface {
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
}

// RoundOperations are called for many objects at a time, with deletions and updates in one call.
type RoundOperations[Obj any] interface {
	ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []BatchEntry[Obj])
}

// BatchEntry is one object of a batch. Operations may sort the entries and change their fields. They
// must not remove or replace an entry: that is an error of its object.
type BatchEntry[Obj any] struct {
	// Object is a clone, which an update may change. For a deletion it is the version that the table
	// had last.
	Object Obj
	// Revision is the revision of the object, or of its deletion.
	Revision statedb.Revision
	// Result is set by the operation: nil, the initial value, means done. Other values are those that
	// the operation of a single object may return.
	Result error

	// place is the index of the [core.Operation] plus 1, so that the operation may sort the entries. It is 0 in
	// an entry that the operation made itself.
	place int
}
