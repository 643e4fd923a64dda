// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Operation is an update or a deletion of one object: the version that it applies, why it is run, and its
// result. There is one for each object of a round, so it is kept small.
//
// [Core.Next] makes it, the runner sets Row, package execute runs it, package ledger sets its outcome, and
// [Core.Settle] counts it. Package execute reads Row, RowRevision, Outcome.Object, Outcome.RowKind, Failures and Deleted;
// it sets Run, Row, RowRevision, Outcome.Object and Outcome.Jitter. While a worker runs the operation, other
// goroutines may read only Obj, Revision, Waits, Deleted and the lane.
type Operation[Obj any] struct {
	// Obj is the version of the object that was observed last, and Revision is its revision.
	Obj      Obj
	Revision uint64
	// since is the revision since which the change is not reconciled.
	since uint64
	entry *entry[Obj]
	lane  Lane
	// Deleted reports whether the object is gone from the table and must be removed from the
	// target.
	Deleted bool
	// Failures is the key's number of failures in a row before this operation, Tries the number since its
	// object changed.
	Failures, Tries int32
	Turn            Turn
	// Waits are those of the key if this version was blocked before. The caller sets them.
	Waits []Wait

	// Row is the row in the table: Obj, a version that was looked up, or what the last checkpoint wrote.
	// RowRevision is its revision, or the one for the deletion.
	Row         Obj
	RowRevision uint64
	Run         Run
	// Outcome has the outcome, once the operation is classified. Before, Object is the version to apply:
	// the executor replaces it with a clone for an update. RowKind is that of the key's last outcome, Wanted
	// that of its change; both are 0 if unknown. Jitter is set for the objects of a batch.
	Outcome Outcome[Obj]
	Effect  Effect
}

// Turn is why an operation is run.
type Turn struct {
	Cause Cause
	// Waited reports whether the key has waited: then its status may be other than Pending or Refreshing.
	// Outdated reports whether the row may have been read in a later version than Obj.
	Waited, Outdated bool
	// Looks reports whether the operation need not be called if the target is right already: the caller may look first. It
	// is not set where the call was asked for although the target may be right.
	Looks bool
	// Repeats reports whether the version was applied before, and an operation, such as a refresh, has failed since.
	Repeats bool
}

// Run is what package execute says of the run of an operation.
type Run struct {
	// Err is what the operation returned, or an error of package execute if it did not return.
	Err error
	// Took is the duration of the call. Share is set if FirstOfCall: the part of Took that counts for
	// the operations of this kind.
	Took, Share time.Duration
	// Note is the last note of the operation; nil if there is none.
	Note *string
	// Merged reports whether a checkpoint was merged with what another reconciler had written: then
	// the row in the table contains more than the object.
	Merged bool
	// Deletion reports whether the update removed the object from the target (Deletion of package
	// running). Changed reports whether the adapter changed the object: then the object is written
	// with the outcome.
	Deletion, Changed bool
	// Polls reports whether the update was done and asked for another run. Worked reports whether the call has worked although
	// Err is set, since what it did does not hold.
	Polls, Worked bool
	// FirstOfCall reports whether the operation is the first of its kind (update or delete) in its
	// call.
	FirstOfCall bool
	// Look is what the operation has seen of its object in the target; nil if it did not look.
	Look *Look
}

// Look is what an operation has seen before its call, and after one that succeeded. If the target was right before,
// nothing was called.
type Look struct{ Before, After Sight }

// Sight is one look at an object in the target. The zero value is one that failed, or was not made.
type Sight struct {
	// Seen: the target has answered. Right: it is as the operation would make it. Diff is what is wrong otherwise, for people.
	Seen, Right bool
	Diff        string
}

// Effect is what has become of an outcome.
type Effect struct {
	// News reports whether the outcome differs from the status in the row, and has to be written.
	// Conflict reports whether it was merged into a row that another reconciler had written.
	News, Conflict bool
	// Discounted reports whether the success of the operation does not count: see [Core.Refresh].
	Discounted bool
}

// HasEntry reports whether the key has an entry. An operation without one that is done need not be settled.
func (op *Operation[Obj]) HasEntry() bool { return op.entry != nil }

// Discounted reports whether the success of the operation will not count: see [Core.Refresh].
func (op *Operation[Obj]) Discounted() bool { return op.entry != nil && op.entry.refresh }

// OnlyLooks reports whether the operation must not be called, whatever it sees: its key waits for something, and was to be
// looked at meanwhile. If the target is not right, see [Core.Return].
func (op *Operation[Obj]) OnlyLooks() bool { return op.Turn.Cause == CauseVerify && op.since > 0 }

// FoundRight reports whether the operation was not called, since the target was right already.
func (op *Operation[Obj]) FoundRight() bool { return op.Run.Look != nil && op.Run.Look.Before.Right }

// Polls reports whether the last update that was done asked for another run: to find the target right does not replace it.
func (op *Operation[Obj]) Polls() bool { return op.entry != nil && op.entry.past.polls && !op.Deleted }

// WaitsToBeCalled reports whether to find the target right does not replace the call: the update deletes the object, or the
// key is blocked, and a call was asked for although the target may be right.
func (op *Operation[Obj]) WaitsToBeCalled() bool {
	return op.entry != nil && (op.entry.past.deletes || op.entry.past.applies && op.entry.waitsIn(Blocked))
}

// Returns reports whether the key waits for something else than the look: see [Core.Return].
func (op *Operation[Obj]) Returns() bool { return op.entry != nil && op.entry.home != nil }

// Since returns the revision since which the change of the operation is not reconciled.
func (op *Operation[Obj]) Since() uint64 { return op.since }

// Untried reports whether the change has not been attempted.
func (op *Operation[Obj]) Untried() bool { return op.entry == nil || !op.entry.version.tried }

// Lane returns the lane of the change.
func (op *Operation[Obj]) Lane() Lane { return op.lane }
