// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Kind is the kind of an outcome.
type Kind uint8

const (
	// Done: the operation succeeded.
	Done Kind = iota
	// Failed: the operation failed. The key is retried after its backoff, or after Delay if that is
	// positive.
	Failed
	// FailedForGood: the operation failed, and the key is not retried until its object changes.
	FailedForGood
	// BlockedOn: the operation waits for something. The key is run again when it is released, and
	// after Delay at the latest if that is positive.
	BlockedOn
	// DoneAgain: the operation succeeded. The key is run again after Delay, or after its backoff if
	// Backoff is set. If that run fails, the key is unreconciled since then, not since the revision
	// of its change.
	DoneAgain
	// Deleting: a deletion has begun and is not finished. It is run again as with DoneAgain, and
	// the key is unreconciled until it is done. It is no failure.
	Deleting
	// Void: the operation was not run, because there is nothing left to do: a deleted object is
	// back in the table, or the row no longer asks for an operation.
	Void
	// Superseded: the operation was not run, because the object is gone from the table and its
	// deletion has not been observed yet.
	Superseded
)

var kindNames = [...]string{"done", "failed", "terminal", "blocked", "requeue", "blocked", "void", "superseded"}

// String returns the name that journals and commands show. Deleting is shown as "blocked", like its
// status.
func (k Kind) String() string { return kindNames[k] }

// Outcome is the outcome of one operation.
type Outcome[Obj any] struct {
	Kind Kind
	// GivenUp, with FailedForGood, means that the key failed too often. The breaker counts that as
	// a failure; it does not count other FailedForGood outcomes.
	GivenUp bool
	// Final, with Failed, means that a deletion reported that retrying is useless. As with
	// FailedForGood, the breaker does not count it.
	Final bool
	// Lost means that the object was changed or deleted while the operation ran. The change decides
	// what comes next, not this outcome, but the attempt counts for the backoff.
	Lost bool
	// Backoff, with DoneAgain or Deleting, replaces Delay by the key's backoff. That grows with the
	// number of such outcomes in a row.
	Backoff bool
	// RowKind is the kind of status of the row that asked for the operation, or any other value of the caller. The
	// next operation of the key gets it.
	RowKind uint8
	Delay   time.Duration
	// Text is the text of the error, or the reason of a block; nil for other kinds. Class is the class
	// of the error, for the log and the figures.
	Text  *string
	Class string
	// Object is the object's version in the table now, and NewRevision its revision; for a deleted
	// object, those of the operation. They are not used if Lost is set.
	Object      Obj
	NewRevision uint64
	// Jitter, from 0 to 1, is the part of [Limits.Jitter] by which the backoff is shortened: keys
	// with the same value are due together. 0 means a random part for each key.
	Jitter float64
	// Wanted is when the attempted change was written, or its deletion read; 0 if unknown, or if the operation
	// repeated what was applied before.
	Wanted time.Duration
}

// ran reports whether the operation was run.
func (out *Outcome[Obj]) ran() bool { return out.Kind != Void && out.Kind != Superseded }

// HasFailed reports whether the operation failed.
func (out *Outcome[Obj]) HasFailed() bool { return out.Kind == Failed || out.Kind == FailedForGood }

// Succeeded reports whether the operation succeeded.
func (out *Outcome[Obj]) Succeeded() bool { return out.Kind == Done || out.Kind == DoneAgain }

// backsOff reports whether the key waits for a backoff although it did not fail.
func (out *Outcome[Obj]) backsOff() bool {
	return out.Backoff && (out.Kind == DoneAgain || out.Kind == Deleting)
}

// waitState returns the state in which a key waits for its next run.
func (out *Outcome[Obj]) waitState() State {
	switch out.Kind {
	case Failed:
		return Retry
	case FailedForGood:
		return Terminal
	case DoneAgain:
		return Requeue
	}
	return Blocked
}
