// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"iter"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
)

// Operations make one object of the target match. They are called one at a time unless
// [Settings].Concurrency or [Settings].MaxStuck says otherwise: then from several goroutines at
// once, but never two of them for one object.
//
// They are told what is wanted now, never what happened: calls coalesce, are repeated
// after a failure, at a refresh and after a restart. They have to be idempotent. The
// context ends when the reconciler stops or, with [Settings].Timeout, at the deadline; a
// call that takes long should heed it. The transaction is the snapshot that the round
// was planned on, for looking up other objects; it must not be kept.
//
// What a call returns says what comes next: nil is done, an error is retried with
// backoff, and [RetryAfter], [TerminalError], [Blocked] and [Requeue] say otherwise. A
// panic is an error, unless [Config].PanicPropagation says otherwise.
type Operations[Obj any] interface {
	// Update makes the target have the object. It is called when the object's
	// status is Pending or Refreshing, and for retries.
	//
	// The object is a clone, with the status that asked for the work, Pending or
	// Refreshing, at retries too. Update may change it: what it set is written with
	// the status, if the status is written (an unchanged failure is not) and if
	// nobody wrote the object meanwhile, or [Config].Merge says how to keep it. What must
	// not wait for the status is for [Checkpoint].
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error

	// Delete makes the target not have the object; that it never had it is no
	// error. It is called when the object was deleted from the table, with the
	// version that the table had last and the revision of the deletion, and
	// repeated until it succeeds or the object is inserted again. The object is
	// not a clone and must not be changed.
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error

	Pruner[Obj]
}

// Pruner removes from the target what nobody wants.
type Pruner[Obj any] interface {
	// Prune is given all wanted objects and removes everything else that is this
	// reconciler's to manage. It is called once the table is initialised, then
	// every pruning interval and on [Reconciler.Prune], never while another
	// operation runs, but for one that was left behind (see [Settings].MaxStuck). A
	// failure is retried with backoff and shows in health until a prune succeeds.
	Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[Obj, statedb.Revision]) error
}

// Sweeper lists what the target has, so that the reconciler can find out by itself what
// nobody wants and delete it with its operations: a sweep, in the place of a prune.
// What it deletes goes through Delete or DeleteBatch as any deletion does, with the
// backoff, the limits and the concurrency of those, and with the object that was listed.
type Sweeper[Obj any] interface {
	// List calls yield with everything in the target that is this reconciler's to
	// manage, until yield returns false, each as an object of which what makes its
	// primary key has to be set, and what Delete needs. It is called when a prune would
	// be, but the first time not before every object that the table had when it was
	// initialised has been attempted. An error means that the listing is not whole:
	// nothing is deleted then, and the sweep is retried with backoff and shows in health
	// until one succeeds. yield is to be called before List returns, from one goroutine
	// at a time; it returns false when the reconciler stops.
	List(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
}

// BatchEntry is one object of a batch. Operations may sort the entries and change their
// fields, but not remove or replace an entry: that is an error of its object.
//
//   - Object is a clone. An update may change it as [Operations].Update may; for deletions it is that of
//     the version that the table had last.
//   - Revision is that of the object, or of its deletion.
//   - Result is for the operation to set: nil, as it is, means done; see [Operations] for the rest.
type BatchEntry[Obj any] = execute.BatchEntry[Obj]

// BatchOperations make many objects of the target match in one call. Everything said
// of [Operations] holds. First attempts, retries and refreshes all come in batches; a
// batch is at most a round (see [WithRoundLimits]), holds no key twice and is in
// revision order. Batches that run at the same time have no key in common. An implementation that also has the method of [Pruner] is pruned
// with it.
type BatchOperations[Obj any] interface {
	// UpdateBatch is called after the round's DeleteBatch, if there is something
	// to update, by the same goroutine.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
	// DeleteBatch is called if there is something to delete.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []BatchEntry[Obj])
}

// RoundOperations take a round's deletions and updates in one call, for targets that
// commit once or where the order matters: make before break, break before make, or by
// revision, the entries' Revision being comparable across both. Everything said of
// [BatchOperations] holds.
type RoundOperations[Obj any] interface {
	// ProcessRound is called if there is something to delete or to update; one of
	// the two may be empty.
	ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []BatchEntry[Obj])
}

// Bisect carries out a batch on a target that takes all of it or nothing, such as an nft
// transaction or one of SQL: an entry that the target refuses does not keep the others from being
// applied. It is called in an UpdateBatch or DeleteBatch with the batch, and sets the Result of each
// entry.
//
// apply applies entries, all or none, and returns why it did not. When it refuses more than one,
// Bisect applies halves of them, in their order, until each bad entry is found alone: with n
// entries of which b are bad that takes at most about 2·b·log2(n) + 1 calls, and what is good is
// applied in as few calls as that finds out. alive returns an error if the target itself is down;
// it is called after a call that failed, and then all entries that were not applied fail with that
// error, at once. It may be nil: then no failure is the target's. When ctx ends, which is when the
// timeout of the batch is over, they fail with its cause and the last refusal, and the next attempt
// starts with all of them again: a timeout that is too short for these calls lets one bad entry hold up
// the others. An entry of which apply said what comes next, as [TerminalError] does, has that as its outcome once it is alone.
func Bisect[Obj any](ctx context.Context, batch []BatchEntry[Obj], apply func(entries []BatchEntry[Obj]) error, alive func() error) {
	execute.Bisect(ctx, batch, apply, alive)
}
