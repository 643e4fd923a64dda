// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// Explanation is the state of one object, and the reason why it is, or is not, reconciled.
// [Inspector].Explain returns it. A time is zero if it is not known, or if there is no such time.
type Explanation struct {
	// Reconciler is [ID.String]. Key is the text of the primary key; [Inspector].Explain takes it
	// back.
	Reconciler string `json:"reconciler"`
	Key        string `json:"key"`
	// At is the time of the explanation.
	At time.Time `json:"at"`

	// State is the state of the object. Since is the time when it entered the state, as far as that
	// is known. Why describes the state in a sentence.
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why"`

	// Found is true if the table has the row; Status is its status at Revision. Deleted is true if the
	// object waits for its deletion from the target.
	Found    bool   `json:"found"`
	Deleted  bool   `json:"deleted,omitempty"`
	Status   string `json:"status,omitempty"`
	Revision uint64 `json:"revision,omitempty"`

	// Attempts is the number of failures in a row. LastAttempt is the end of the last attempt. Error
	// is the text of the last failure.
	Attempts    int       `json:"attempts,omitempty"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	Error       string    `json:"error,omitempty"`
	// Wanted is the time when the program wrote the change that is not applied yet.
	Wanted time.Time `json:"wanted,omitzero"`
	// Next is the time of the next attempt, if that is known: for a blocked object the recheck, and
	// behind a breaker the next probe, which may be an operation on another object.
	Next time.Time `json:"next,omitzero"`
	// BlockedOn is the reason that the operation of a blocked object returned.
	BlockedOn string `json:"blocked_on,omitempty"`
	// Lane is the lane in which the change waits. Ahead is the number of objects before it in its lane
	// or its group; the count stops at 1000. Group is the group in which the object waits, Holder the key of the object of that
	// group which has its turn.
	Lane   string `json:"lane,omitempty"`
	Ahead  int    `json:"ahead,omitempty"`
	Group  string `json:"group,omitempty"`
	Holder string `json:"holder,omitempty"`

	// InForce tells whether what the row says is in force. Only the command reconciler/explain sets it, for a row from which
	// others are derived.
	InForce *InForce `json:"in_force,omitempty"`

	// Notes are facts about the whole reconciler that matter to the object, such as an open breaker.
	Notes []string `json:"notes,omitempty"`
	// Operations are the latest ten operations on the object in the journal, the latest last.
	Operations []Operation `json:"events,omitempty"`
}
