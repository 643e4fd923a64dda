// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Kind says what came of an item.
type Kind uint8

const (
	// Done: the target has it.
	Done Kind = iota
	// Failed: to be retried after the backoff of its key, or after Delay if that
	// is positive.
	Failed
	// FailedForGood: not to be retried until the object changes.
	FailedForGood
	// BlockedOn: to be run again when released, after Delay at the latest if that
	// is positive.
	BlockedOn
	// DoneAgain: done, and to be run again after Delay, or with Backoff after the
	// backoff of its key. Should it fail then, it counts as unreconciled since then,
	// not since its old revision.
	DoneAgain
	// Deleting: a deletion that was begun and goes on, to be run again as DoneAgain is. The
	// change is owed until the deletion is done; it is no failure, and says nothing of the
	// target.
	Deleting
	// Void: not run, because nothing is left to be done: an object that was to
	// leave the target is back in the table, or the row does not ask for anything any more.
	Void
	// Superseded: not run, because the object is gone from the table; its deletion is
	// still to be observed.
	Superseded
)

var kindNames = [...]string{"done", "failed", "terminal", "blocked", "requeue", "blocked", "void", "superseded"}

// String returns the name by which people know what came of an operation. That of Deleting is
// "blocked", as its status is.
func (k Kind) String() string { return kindNames[k] }

// Outcome is what came of one item.
type Outcome[Obj any] struct {
	Kind  Kind
	Delay time.Duration
	// Backoff: DoneAgain, or Deleting, after the wait that the key has earned by how often in
	// a row it asked for this; Delay does not count then.
	Backoff bool
	// Failure is the error's text for the kinds that failed, else nil; Class is that
	// of the error, which matters only with breakers by class.
	Failure *string
	Class   string
	// GivenUp: FailedForGood only for having failed too often. For the breakers that is
	// Failed.
	GivenUp bool
	// Final: Failed, of a deletion that says that trying again is of no use. For the breakers
	// that is no failure, as FailedForGood is none.
	Final bool
	// Lost: the operation ran, and the object changed or was deleted meanwhile.
	// The change says what comes next, not the outcome; but an attempt is an
	// attempt, and counts for the backoff.
	Lost bool
	// Obj and Revision are the version of the object that stands in the table
	// now, unless Lost; for a deleted object the item's own.
	Obj      Obj
	Revision uint64
	// Mark is a note of the caller's that comes back in Item.Mark.
	Mark uint8
	// Jitter, below 1, is how much of the jitter the backoff of the key is shortened by, for
	// keys that are to come back together; 0 means that it is drawn for this key.
	Jitter float64
	// Wanted is when the change was written that was attempted; 0 if nobody knows.
	Wanted time.Duration
}

// backsOff reports whether the key backs off though its operation did not fail.
func (out *Outcome[Obj]) backsOff() bool {
	return out.Backoff && (out.Kind == DoneAgain || out.Kind == Deleting)
}

// waitState returns the state of a key that waits to be run again though nothing failed.
func (out *Outcome[Obj]) waitState() State {
	if out.Kind == Deleting {
		return Blocked
	}
	return Requeue
}
