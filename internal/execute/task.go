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

// Task is one operation: what to call with, and what came back. It is kept small: there is one for
// each object that is reconciled.
type Task[Obj any] struct {
	// Row is the object as it stands in the table: as it was planned, or as the last checkpoint
	// wrote it.
	Row Obj
	// Object is the version to apply. A clone takes its place before the call.
	Object Obj
	// Revision is that of the version, or of the deletion.
	Revision statedb.Revision
	// Note is that of [Note]; nil if there is none.
	Note *string
	// Attempt counts the attempts of the key from 1.
	Attempt int32
	// Deleted: call Delete.
	Deleted bool
	// Asked is the kind of status that the clone gets if it has neither Pending nor Refreshing:
	// that of the row by which a retry was asked for. Unset means that it keeps its own.
	Asked status.Kind
	// Merged: the row in the table has more than Object, since a checkpoint was merged
	// with what another reconciler had written.
	Merged bool
	// Deletion: the update was to remove the object from the target, as its adapter said.
	// Changed: the adapter changed the object, which is written with the outcome.
	Deletion, Changed bool
	// FirstOfCall: it was the first of its kind of operation in a call, which took Share.
	FirstOfCall bool

	// Err is what the operation returned: [ErrNotRun] before it is run, [ErrGoexit] if it
	// never came back.
	Err error
	// Took is how long the call took.
	Took, Share time.Duration
	// Jitter is how much of the jitter the next wait is shortened by, the same for all
	// objects of a call; 0 if it was a call of its own, for which one is drawn.
	Jitter float64
}

// Operation returns OpUpdate or OpDelete.
func (t *Task[Obj]) Operation() string {
	if t.Deleted {
		return metrics.OpDelete
	}
	return metrics.OpUpdate
}

// clone returns the copy of a task's object that an operation is handed.
func (t *Task[Obj]) clone(r *rows.Rows[Obj]) Obj {
	object := r.Clone(t.Object)
	if t.Asked == status.KindUnset || t.Deleted {
		return object
	}
	s := r.GetStatus(object)
	if s.IsPendingOrRefreshing() {
		return object
	}
	s.Kind, s.Error = t.Asked, nil
	return r.SetStatus(object, s)
}

var (
	// ErrNotRun is the error of a task that the executor did not get to.
	ErrNotRun = errors.New("not run")
	// ErrGoexit is that of an operation which ended its goroutine, as FailNow of a test does.
	ErrGoexit = errors.New("the operation called runtime.Goexit")
)

// Operations are called one object at a time.
type Operations[Obj any] interface {
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error
}

// BatchOperations are called with many objects, deletions and updates apart.
type BatchOperations[Obj any] interface {
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
}

// RoundOperations are called with many objects, deletions and updates together.
type RoundOperations[Obj any] interface {
	ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []BatchEntry[Obj])
}

// BatchEntry is one object of a batch. Operations may sort the entries and change their
// fields, but not remove or replace an entry: that is an error of its object.
type BatchEntry[Obj any] struct {
	// Object is a clone. An update may change it, as one of a single object may; for
	// deletions it is that of the version that the table had last.
	Object Obj
	// Revision is that of the object, or of its deletion.
	Revision statedb.Revision
	// Result is for the operation to set: nil, as it is, means done; what else it may be is
	// what the operation of a single object may return.
	Result error

	// place is the entry's place in the round, counted from 1, so that entries may be
	// sorted; 0 in an entry that somebody else made.
	place int
}
