// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// Explanation says why an object is, or is not, reconciled: the answer of [Inspector].
// Times are zero where there is nothing to tell.
type Explanation struct {
	// Reconciler is [ID.String], Key the text of the primary key, by which the object can
	// be asked for again.
	Reconciler string `json:"reconciler"`
	Key        string `json:"key"`
	// At is when this was so.
	At time.Time `json:"at"`

	// State is where the object is, Since from when on, as far as is known, and Why says
	// it in a sentence.
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why"`

	// Found: the table has the row, which has Status at Revision. Deleted: the object is
	// to leave the target.
	Found    bool   `json:"found"`
	Deleted  bool   `json:"deleted,omitempty"`
	Status   string `json:"status,omitempty"`
	Revision uint64 `json:"revision,omitempty"`

	// Attempts is how many attempts in a row have failed, LastAttempt when the last one
	// ended, Error what the last failure said.
	Attempts    int       `json:"attempts,omitempty"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	Error       string    `json:"error,omitempty"`
	// Wanted is when the change that is not applied was written.
	Wanted time.Time `json:"wanted,omitzero"`
	// Next is when the next attempt is due, if a clock says so: for a blocked object, that
	// of the recheck; behind a breaker, the next probe, which may be of another object.
	Next time.Time `json:"next,omitzero"`
	// BlockedOn is what a blocked object waits for: the reason that its operation gave.
	BlockedOn string `json:"blocked_on,omitempty"`
	// Lane is by which the change came; Ahead is how many objects come before this one,
	// in its lane or its group, or about how many changes if it is unseen; no more than
	// 1000 are counted. Group is the group that it waits in, Holder the key of the object
	// that is worked on there.
	Lane   string `json:"lane,omitempty"`
	Ahead  int    `json:"ahead,omitempty"`
	Group  string `json:"group,omitempty"`
	Holder string `json:"holder,omitempty"`

	// Notes are what holds of the whole reconciler and matters to the object.
	Notes []string `json:"notes,omitempty"`
	// Events are the latest operations on the object, the latest last, as far as the
	// journal has them; it keeps failures for longer than the rest.
	Events []Event `json:"events,omitempty"`
}
