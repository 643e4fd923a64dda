// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Kind is the kind of an outcome.
type Kind uint8

const (
	// Done: the operation succeeded.
	Done Kind = iota
	// Failed: the key is retried after its backoff, or after Delay if that is positive.
	Failed
	// FailedForGood: the key is not retried until the object changes.
	FailedForGood
	// BlockedOn: the key is run again when it is released, or after Delay if that is positive.
	BlockedOn
	// DoneAgain: the operation succeeded, and the key is run again after Delay, or with Backoff
	// after the backoff of the key. If that fails, the key is unreconciled since then, not since
	// the revision of the change.
	DoneAgain
	// Deleting: a deletion has begun and goes on; it is run again as DoneAgain is. The key is
	// unreconciled until the deletion is done. It is no failure, and tells a breaker nothing.
	Deleting
	// Void: the operation was not run, because there is nothing left to do: a deleted object is
	// back in the table, or the row asks for nothing any more.
	Void
	// Superseded: the operation was not run, because the object is gone from the table and its
	// deletion has not been observed.
	Superseded
)

var kindNames = [...]string{"done", "failed", "terminal", "blocked", "requeue", "blocked", "void", "superseded"}

// String returns the name that journals and commands show. That of Deleting is "blocked", as is the
// status.
func (k Kind) String() string { return kindNames[k] }

// Outcome is the outcome of one item.
type Outcome[Obj any] struct {
	Kind  Kind
	Delay time.Duration
	// Backoff, with DoneAgain or Deleting: the wait is the backoff of the key, by how often in a
	// row it asked for one; Delay is ignored.
	Backoff bool
	// Failure is the text of the error, nil for kinds that did not fail. Class is the class of the
	// error, and matters only with breakers by class.
	Failure *string
	Class   string
	// GivenUp, with FailedForGood: the key failed too often. For breakers that is a failure.
	GivenUp bool
	// Final, with Failed: a deletion reports that retrying is useless. As with FailedForGood, that
	// is no failure for breakers.
	Final bool
	// Lost: the operation ran, and the object was changed or deleted meanwhile. The change decides
	// what comes next, not the outcome; but the attempt counts for the backoff.
	Lost bool
	// Obj and Revision are the version of the object in the table now, unless Lost; for a deleted
	// object those of the item.
	Obj      Obj
	Revision uint64
	// Mark is a value of the caller that comes back in Item.Mark.
	Mark uint8
	// Jitter, from 0 to 1, is the part of the jitter that the backoff is shortened by, for keys
	// that should be due together; 0 means a random part for each key.
	Jitter float64
	// Wanted is when the attempted change was written; 0 if that is not known.
	Wanted time.Duration
}

// backsOff reports whether the key waits for a backoff without a failure.
func (out *Outcome[Obj]) backsOff() bool {
	return out.Backoff && (out.Kind == DoneAgain || out.Kind == Deleting)
}

// waitState returns the state of a key that is run again without a failure.
func (out *Outcome[Obj]) waitState() State {
	if out.Kind == Deleting {
		return Blocked
	}
	return Requeue
}
