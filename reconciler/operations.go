// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"iter"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
)

// ObjectOperations change one object of the target at a time. They are called one at a time, unless
// [Settings].Concurrency is above 1: then they are called from several goroutines at once, but never
// for one object at the same time.
//
// An operation gets the current desired state, never an event. Calls coalesce, and are repeated after
// a failure, at a refresh and after a restart, so operations have to be idempotent.
//
// The context ends when the reconciler stops or, with [Settings].Timeout, at the deadline; a call
// that takes long should observe it. The transaction is the snapshot that the round read.
// It is for looking up other objects, and must not be kept after the call.
//
// The returned error decides what happens next. nil means that the operation is done. An error is
// retried with backoff. [RetryAfter], [TerminalError], [Blocked], [Requeue] and [RequeueBackoff]
// request something else: these are outcomes. A panic is an error, unless [Config].PanicPropagation is
// set.
//
// An outcome may be wrapped by [fmt.Errorf], or joined with other errors by [errors.Join]. Of several
// that are joined one counts, the first of: RetryAfter with the longest time, because a retry may do a
// part of the work; Blocked, with the channels of all; TerminalError; any other error; Requeue with the
// shortest time; RequeueBackoff. So join RetryAfter(err, 0) with a TerminalError if a part of the work
// should be retried.
type ObjectOperations[Obj any] interface {
	// Update creates or changes the object in the target. It is called when the row has changed (if the rows carry
	// the status, when that is Pending or Refreshing), for refreshes and repairs, for [Loop.Reapply] and triggers, and
	// for retries.
	//
	// If the rows carry no status, the object is the row itself and must not be changed. Otherwise it
	// is a clone. Its status is Pending or Refreshing, whichever asked for the work, also at retries and after a
	// [Requeue]. It is Refreshing for a refresh, a repair, Reapply or a trigger if the row is Done; the row itself stays
	// so meanwhile. Update may change the clone: its changes are written together with the status. They are
	// lost if the status is not written, as for a failure with the same text as the last, or if the
	// row was written meanwhile and [Config].Merge does not keep them. Use [Checkpoint] for changes
	// that must be written at once.
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error

	// Delete removes the object from the target. It returns nil if the target does not have the
	// object. It is called when the row was deleted, with the last version of the row and the
	// revision of the deletion. It is repeated until it succeeds or the object is inserted again. The
	// object is not a clone and must not be changed.
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error
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

// BatchEntry is one object of a batch. Operations may sort the entries and change their fields. They
// must not remove or replace an entry: that is an error of its object.
//
//   - Object: for an update a clone, which the operation may change as [ObjectOperations].Update may; for a
//     deletion a clone of the last version of the row.
//   - Revision: the revision of the object, or of its deletion.
//   - Result: set by the operation. nil, the initial value, means done; see [ObjectOperations] for other
//     values.
type BatchEntry[Obj any] = execute.BatchEntry[Obj]

// BatchOperations change many objects of the target in one call. What [ObjectOperations] documents applies
// here too. First attempts, retries and refreshes all come in batches.
//
// A batch is no larger than a round (see [Settings].RoundSize), holds no key twice, and is in the order
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
// apply applies all of its entries, or none and returns the reason. If the target says which entries
// are bad, apply returns [Blame]: these fail, and Bisect calls apply with the others. That takes a call
// more than there are errors with blame. Otherwise Bisect calls apply with each half, in their order,
// until every bad entry is found alone. For n entries, b of them bad, this takes at most about
// 2·b·log2(n) + 1 calls. Outcomes that apply returns, such as [TerminalError], count for an entry that
// is refused alone or blamed.
//
// alive returns an error if the target itself is down. Bisect calls it once after each call of apply
// that failed, which is nearly as often as apply if there are many bad entries: it should cost less. If
// it returns an error, Bisect stops, and all entries that are not applied yet fail with that error. A
// nil alive means that the target is never down.
//
// When ctx ends, such as at the timeout of the batch, Bisect stops as well. The remaining entries
// fail with the cause of ctx and the text of the last refusal. The next attempt starts again with all
// of them: if the timeout is too short for these calls, one bad entry delays the others.
func Bisect[Obj any](ctx context.Context, batch []BatchEntry[Obj], apply func(entries []BatchEntry[Obj]) error, alive func() error) {
	execute.Bisect(ctx, batch, apply, alive)
}

// Blame returns err with the entries that are the reason for it, for the function apply of [Bisect]. places
// are their places in the entries that apply was called with, as these are sorted when apply returns; the
// first is 0. These entries fail with err, or with what apply wraps it in, such as [TerminalError] or more
// text. If they fail for different reasons, join several with [errors.Join]: then each fails with its own.
// Places that apply has no entry for do not count. It returns nil if err is nil. Outside Bisect it is err.
//
// Do not blame an entry that may be good: it fails without being tried alone.
func Blame(err error, places ...int) error { return execute.Blame(err, places...) }

// MaxErrorText is the number of bytes (16 KiB) that are kept of the text of an error or of the reason
// of [Blocked]. A longer text is cut, and ends with the number of bytes left out. It is cut when the
// operation returns, or for a batch when the call returns.
const MaxErrorText = outcome.MaxText

// RetryAfter returns an error that makes the reconciler retry the failure err after d, instead of
// after the exponential backoff. Use it for the Retry-After header of a server, for example. A d of
// zero or below means the backoff. It returns nil if err is nil.
func RetryAfter(err error, d time.Duration) error { return outcome.RetryAfter(err, d) }

// TerminalError returns an error that makes the failure err final: the operation is not retried until
// the object changes, the program sets its status to Pending or Refreshing, the program or a trigger hands it
// to [Loop.Reapply], [Loop.Retry] is called for it, or a reconciler starts again. A periodic refresh and
// [Loop.Refresh] skip the object, because it is not Done. If a resync or [Loop.Verify] finds that the target is as the row
// wants it, the object is Done. It returns nil if err is nil.
//
// The failure of a deletion is never final: there is no row whose change could bring the deletion
// back. It is retried with backoff.
func TerminalError(err error) error { return outcome.TerminalError(err) }

// Requeue returns an error that means that the operation is done, and should run again after d. The
// status is Done meanwhile, and is not written again while it stays Done. A d of zero or below means
// at once, after the work that is already due. A refresh that is due meanwhile runs in between.
//
// For a deletion it means that the object is still being deleted. The deletion stays unreconciled
// until its operation returns nil, so waits for it go on; this is no failure. A deletion has no
// status. A row that an adapter keeps until its deletion is done is Blocked, "still deleting",
// meanwhile.
func Requeue(d time.Duration) error { return outcome.Requeue(d) }

// RequeueBackoff returns an error that means that the operation is done, and should run again with
// exponential backoff. It is [Requeue] for operations that do not know when there is work again.
//
// The delay is that of [WithRetry] and [Settings].Jitter. It doubles each time in a row that the
// operation on the object returns RequeueBackoff, even if the object changed in between. Any other
// outcome, or the deletion of the object, resets it. This is no failure: it does not count for
// [Settings].MaxRetries or a breaker, and health stays OK. Otherwise it is as Requeue.
func RequeueBackoff() error { return outcome.RequeueBackoff() }

// Blocked returns an error that means that the operation cannot be done before something else
// happens, which closes one of the watch channels. The status is Blocked, with the reason. This is no
// failure. The operation runs again at once when a channel closes, and also after
// [Settings].BlockedRecheck unless that is zero. If [Loop.Verify] or a resync finds that the target is as the row wants it,
// the object is Done, unless it is blocked since a refresh, a trigger or [Loop.Reapply].
//
// Take the channels from look-ups in the transaction that the operation was given: then no wake-up is
// lost. Without a channel the object waits for the recheck, or until it changes; nil channels do not
// count.
func Blocked(reason string, watch ...<-chan struct{}) error { return outcome.Blocked(reason, watch...) }

// IsBlocked reports whether the reconciler treats err as [Blocked]: see [ObjectOperations].
func IsBlocked(err error) bool { return outcome.Is(err, core.BlockedOn) }

// IsTerminal reports whether the reconciler treats err as [TerminalError]: see [ObjectOperations].
func IsTerminal(err error) bool { return outcome.Is(err, core.FailedForGood) }

var (
	// ErrConflict is returned by [Checkpoint] when the object was changed or deleted since the
	// operation got it.
	ErrConflict = execute.ErrConflict
	// ErrNoOperation is returned by [Checkpoint] outside of an update of the object.
	ErrNoOperation = execute.ErrNoOperation
	// ErrNotWritable is returned by [Checkpoint] if the rows carry no status: then the reconciler never
	// writes its table. It is a [TerminalError].
	ErrNotWritable = execute.ErrNotWritable
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
func Checkpoint[Obj any](ctx context.Context, obj Obj) error {
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
// Call it within an update or a deletion of [ObjectOperations], with the context of the call, from any
// goroutine, but not after the call has returned: the note might be attached to another operation. It
// does nothing outside of an operation, and in a call for several objects, where [NoteOn] is used.
func Note(ctx context.Context, text string) { execute.Note(ctx, text) }

// NoteOn attaches a note as [Note] does, to one object of a call of [BatchOperations] or
// [RoundOperations]. obj is the object of the call, or a copy of it. It works for a single object,
// too. It does nothing if obj is not an object of the call.
func NoteOn[Obj any](ctx context.Context, obj Obj, text string) {
	execute.NoteOn(ctx, obj, text)
}

// OperationInfo describes a call of an operation that is about to be made.
//
//   - Reconciler: the ID of the reconciler that makes the call.
//   - Operation: "update", "delete", or "round" for a call of [RoundOperations] with both.
//   - Objects: the number of objects of the call, 1 unless it is a batch.
//   - Key, Revision and Attempt: the text of the key of the object, the version that is applied, and the
//     number of the attempt, counted from 1. For a batch they are those of the first object.
type OperationInfo = execute.Call

// OperationHook is called before each call of an operation. The operation gets the context that it
// returns. The function that it returns, which may be nil, is called after the operation, with its
// error; for a batch that is nil unless it panics.
//
// The goroutine that runs the operation calls both; with workers ([Settings].Concurrency) these are
// several at once. A panic of the hook counts as a panic of the operation.
type OperationHook func(ctx context.Context, op OperationInfo) (context.Context, func(err error))
