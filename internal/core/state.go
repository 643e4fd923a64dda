// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// State is the state of a key that has an entry. A key without an entry is reconciled, or its
// change has not been observed.
type State uint8

const (
	// Taken: the key is in no queue, until the call that took it out has put it into another state.
	Taken State = iota
	// Ready: the key waits in its lane for room in a round.
	Ready
	// InFlight: an operation on the key was launched and is not settled.
	InFlight
	// Queued: the key waits while another key of its group is worked on.
	Queued
	// Paused: the object is not worked on until it is resumed.
	Paused
	// Unseen: the object was changed or deleted while its operation ran, or before its retry, and
	// that change has not been observed.
	Unseen
	// Held: the key failed and then changed. It waits until the minimum backoff since its last
	// attempt has passed.
	Held
	// Retry: the key failed and waits for its retry.
	Retry
	// Requeue: the key is reconciled, and asked to be run again after a delay.
	Requeue
	// Blocked: the key waits to be released, or for its recheck time if it has one.
	Blocked
	// Terminal: the key failed and is not retried until its object changes or RetryNow is called.
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
