// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"iter"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
)

// Operations change one object of the target at a time. They are called one at a time, unless
// [Settings].Concurrency is above 1: then they are called from several goroutines at once, but never
// for one object at the same time.
//
// An operation gets the current desired state, never an event. Calls coalesce, and are repeated after
// a failure, at a refresh and after a restart, so operations have to be idempotent.
//
// The context ends when the reconciler stops or, with [Settings].Timeout, at the deadline; a call
// that takes long should observe it. The transaction is the snapshot that the round was planned on.
// It is for looking up other objects, and must not be kept after the call.
//
// The returned error decides what happens next. nil means that the operation is done. An error is
// retried with backoff. [RetryAfter], [TerminalError], [Blocked], [Requeue] and [RequeueBackoff]
// request something else. A panic is an error, unless [Config].PanicPropagation is set.
type Operations[Obj any] interface {
	// Update creates or changes the object in the target. It is called when the row has changed, for
	// refreshes and for retries; if the rows carry the status, when that is Pending or Refreshing.
	//
	// If the rows carry no status, the object is the row itself and must not be changed. Otherwise it
	// is a clone. Its status is the one that asked for the work, Pending or Refreshing, at retries
	// too. Update may change the clone: its changes are written together with the status. They are
	// lost if the status is not written, as for a failure with the same text as the last, or if the
	// row was written meanwhile and [Config].Merge does not keep them. Use [Checkpoint] for changes
	// that must be written at once.
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error

	// Delete removes the object from the target. It returns nil if the target does not have the
	// object. It is called when the row was deleted, with the last version of the row and the
	// revision of the deletion. It is repeated until it succeeds or the object is inserted again. The
	// object is not a clone and must not be changed.
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error

	Pruner[Obj]
}

// Pruner removes from the target what the table does not have.
type Pruner[Obj any] interface {
	// Prune gets all objects of the table, and removes everything else that this reconciler manages
	// from the target. With a [Settings].PruneInterval it is called when the table is initialised and
	// then at that interval. It is also called after [Reconciler.Prune]. It never runs at the same
	// time as another operation. A failure is retried with backoff, and health reports it until a
	// prune succeeds.
	Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[Obj, statedb.Revision]) error
}

// Sweeper lists what the target has, so that the reconciler can delete what the table does not have.
// Such a sweep replaces the prune. The deletions of a sweep are ordinary ones: Delete or DeleteBatch
// is called with the object that was listed, with the usual backoff, limits and concurrency.
type Sweeper[Obj any] interface {
	// List calls yield with every object in the target that this reconciler manages. Each object
	// needs the fields of its primary key, and what Delete needs. List stops when yield returns
	// false, which means that the reconciler stops. It must not call yield from two goroutines at the
	// same time, nor after it has returned.
	//
	// List is called when a prune would be called. The first call waits until every object that the
	// table had when it was initialised has been attempted. An error means that the list is
	// incomplete: nothing is deleted, the sweep is retried with backoff, and health reports the
	// failure until a sweep succeeds.
	List(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
}

// BatchEntry is one object of a batch. Operations may sort the entries and change their fields. They
// must not remove or replace an entry: that is an error of its object.
//
//   - Object: for an update a clone, which the operation may change as [Operations].Update may; for a
//     deletion a clone of the last version of the row.
//   - Revision: the revision of the object, or of its deletion.
//   - Result: set by the operation. nil, the initial value, means done; see [Operations] for other
//     values.
type BatchEntry[Obj any] = execute.BatchEntry[Obj]

// BatchOperations change many objects of the target in one call. What [Operations] documents applies
// here too. First attempts, retries and refreshes all come in batches.
//
// A batch is no larger than a round (see [WithRoundLimits]), holds no key twice, and is in the order
// of revisions. Batches that run at the same time have no key in common. Its Prune method, if any, is
// used if Config has no other pruner.
type BatchOperations[Obj any] interface {
	// UpdateBatch is called if there is something to update. It is called after the DeleteBatch of
	// the same round, by the same goroutine.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
	// DeleteBatch is called if there is something to delete.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
}

// RoundOperations change the target with the deletions and the updates of a round in one call. They
// are for targets that commit once, or where the order matters: make before break, break before make,
// or by revision. The revisions of the entries are comparable across deletions and updates. What
// [BatchOperations] documents applies here too.
type RoundOperations[Obj any] interface {
	// ProcessRound is called if there is something to delete or to update. One of the two slices may
	// be empty.
	ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []BatchEntry[Obj])
}

// Bisect applies a batch to a target that accepts or refuses a call as a whole, such as an nft or SQL
// transaction. An entry that the target refuses does not prevent the others from being applied. Call
// it in UpdateBatch or DeleteBatch, with the batch; it sets the Result of each entry. An entry that
// already has a Result, such as the error of [Need], keeps it and is not applied; Bisect moves these
// entries behind the others.
//
// apply applies all of its entries, or none and returns the reason. If apply refuses several entries,
// Bisect calls it with each half, in their order, until every bad entry is found alone. For n
// entries, b of them bad, this takes at most about 2·b·log2(n) + 1 calls. Outcomes that apply
// returns, such as [TerminalError], count for an entry that is refused alone.
//
// alive returns an error if the target itself is down. Bisect calls it after a call of apply that
// failed. If it returns an error, Bisect stops, and all entries that are not applied yet fail with
// that error. A nil alive means that the target is never down.
//
// When ctx ends, such as at the timeout of the batch, Bisect stops as well. The remaining entries
// fail with the cause of ctx and the text of the last refusal. The next attempt starts again with all
// of them: if the timeout is too short for these calls, one bad entry delays the others.
func Bisect[Obj any](ctx context.Context, batch []BatchEntry[Obj], apply func(entries []BatchEntry[Obj]) error, alive func() error) {
	execute.Bisect(ctx, batch, apply, alive)
}
