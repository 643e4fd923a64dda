// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

// Task is one operation on one object: its arguments and its result. There is one for each object of
// a round, so it is kept small.
type Task[Obj any] struct {
	// Row is the row in the table: the version that was planned, or that the last checkpoint wrote.
	Row Obj
	// Object is the version to apply. For an update, the executor replaces it with a clone before the
	// call.
	Object Obj
	// Revision is the revision of that version, or of the deletion.
	Revision statedb.Revision
	// Note is the text of the last [Note]; nil if there is none.
	Note *string
	// Attempt is the number of the attempt for the key, from 1.
	Attempt int32
	// Deleted reports whether the operation is Delete.
	Deleted bool
	// Asked is the kind of the status that asked for the work, for a retry: the row may no longer
	// have it. The clone gets this kind if its own status is neither Pending nor Refreshing. If Asked
	// is unset, the clone keeps its own status.
	Asked status.Kind
	// Merged reports whether a checkpoint was merged with what another reconciler had written: then
	// the row in the table contains more than Object.
	Merged bool
	// Deletion reports whether the update removed the object from the target (Deletion of package
	// running). Changed reports whether the adapter changed the object: then the object is written
	// with the outcome.
	Deletion, Changed bool
	// FirstOfCall reports whether the task is the first of its kind (update or delete) in its call.
	FirstOfCall bool

	// Err is what the operation returned. It is [ErrNotRun] before the operation runs, and
	// [ErrGoexit] if the operation ended its goroutine.
	Err error
	// Took is the duration of the call. Share is set if FirstOfCall: the part of Took that counts for
	// the tasks of this kind.
	Took, Share time.Duration
	// Jitter is the random factor, from 0 to 1, for the jitter of the next backoff. It is the same
	// for all objects of a call for a batch. Without batches it is 0: then one is drawn for each
	// wait.
	Jitter float64
}

// Operation returns [metrics.OpUpdate] or [metrics.OpDelete].
func (t *Task[Obj]) Operation() string {
	if t.Deleted {
		return metrics.OpDelete
	}
	return metrics.OpUpdate
}

// clone returns the copy of the task's object for the operation.
func (t *Task[Obj]) clone(r *rows.Rows[Obj]) Obj {
	object := r.Copy(t.Object)
	if t.Deleted || t.Asked == status.KindUnset || r.Writable == nil {
		return object
	}
	s := r.Writable.GetStatus(object)
	if s.IsPendingOrRefreshing() {
		return object
	}
	s.Kind, s.Error = t.Asked, nil
	return r.Writable.SetStatus(object, s)
}

var (
	// ErrNotRun is the error of a task that the executor has not run.
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

	// place is the index of the task plus 1, so that the operation may sort the entries. It is 0 in
	// an entry that the operation made itself.
	place int
}
