// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// State is where a key with an entry is. A key without one is reconciled, or its
// change has not been observed yet.
type State uint8

const (
	// Planned: in this round.
	Planned State = iota
	// Ready: to be run when a round has room for it.
	Ready
	// InFlight: an operation on it was launched.
	InFlight
	// Queued: waits until another key of its group has been worked on.
	Queued
	// Paused: not to be worked on until somebody says so.
	Paused
	// Tripped: waits behind an open breaker of the class of its last error.
	Tripped
	// Unseen: the object changed while it was worked on, or before its retry;
	// the change is still to be observed.
	Unseen
	// Held: changed, and waits until the minimum backoff since the last attempt
	// has passed.
	Held
	// Retry: failed, waits for its backoff.
	Retry
	// Requeue: reconciled, and asked to be run again later.
	Requeue
	// Blocked: waits to be released.
	Blocked
	// Terminal: failed for good, until it changes.
	Terminal
	// NumStates is how many states there are.
	NumStates
)

var stateNames = [NumStates]string{
	"planned", "ready", "in flight", "queued", "paused", "tripped",
	"unseen", "held", "retry", "requeue", "blocked", "terminal",
}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }
