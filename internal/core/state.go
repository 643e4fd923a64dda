// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// State is the state of a key that has an entry. A key without an entry is reconciled, or its
// change has not been observed. If the row of a key loses its status, the entry goes.
//
// While a key is Ready, InFlight or Queued, its change waits for its first attempt, unless that, or an earlier version that
// asked for the same, was attempted: so waits for Attempted of that revision do not end, and the mark stays below it.
type State uint8

const (
	// Taken: the key is in no queue, until the call that took it out has put it into another state.
	Taken State = iota
	// Ready: the key waits in its lane for room in a round: after a change, a refresh, the listing of an orphan, or the end of
	// a pause.
	Ready
	// InFlight: an operation on the key was launched by Next, and is not settled or recalled.
	InFlight
	// Queued: its turn came while another key of its group was worked on. It ends when that is settled.
	Queued
	// Paused: the object was paused, or its turn came while it was. It ends with the pause.
	Paused
	// Unseen: the object was changed or deleted while its operation ran, or before its retry, and
	// that change has not been observed. It ends when the change is.
	Unseen
	// Held: the key failed and then changed. It waits until the minimum backoff since its last
	// attempt has passed, or for RetryNow.
	Held
	// Retry: the key failed and waits for its retry: its backoff or the delay of its error, the end of the breaker, RetryNow, a
	// Refresh, a change, or a look of Verify.
	Retry
	// Requeue: the key is reconciled, and asked to be run again after a delay. It ends as Retry does.
	Requeue
	// Blocked: the key waits to be released, or for its recheck time if it has one. RetryNow, a Refresh and a change end it,
	// too.
	Blocked
	// Terminal: the key failed and is not retried until its object changes or is set to Pending or Refreshing, or RetryNow or a
	// Refresh is called; Verify only looks at it.
	Terminal
	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{
	"ready", "ready", "in flight", "queued", "paused",
	"unseen", "held", "retry", "requeue", "blocked", "terminal",
}

// String returns the state's name, which package inspect shows. Taken is shown as Ready.
func (s State) String() string { return stateNames[s] }
