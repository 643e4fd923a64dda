// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// State is the state of a key that has an entry. A key without one is reconciled, or its change has
// not been observed.
type State uint8

const (
	// Planned: it is in this round.
	Planned State = iota
	// Ready: it is run when a round has room for it.
	Ready
	// InFlight: an operation on it was launched.
	InFlight
	// Queued: it waits until another key of its group has been worked on.
	Queued
	// Paused: it is not worked on until it is resumed.
	Paused
	// Tripped: it waits behind an open breaker for the class of its last error.
	Tripped
	// Unseen: the object changed while it was worked on, or before its retry, and the change has
	// not been observed.
	Unseen
	// Held: it changed, and waits until the minimum backoff since its last attempt has passed.
	Held
	// Retry: it failed and waits for its backoff.
	Retry
	// Requeue: it is reconciled and asked to be run again later.
	Requeue
	// Blocked: it waits to be released.
	Blocked
	// Terminal: it failed and is not retried until it changes.
	Terminal
	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{
	"planned", "ready", "in flight", "queued", "paused", "tripped",
	"unseen", "held", "retry", "requeue", "blocked", "terminal",
}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }
