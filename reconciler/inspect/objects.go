// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// ObjectQuery says which objects to list.
type ObjectQuery struct {
	// Status is the kind of status that a row has to have: "Error", "Blocked",
	// "Pending", "Refreshing", "Done", "Unset" or "" for all, without regard to case; or
	// "Deleted" for deletions that are not carried out.
	Status string
	// After is [ObjectPage].Next of the page before; empty for the first.
	After string
	// Limit is how many; zero means 50, and no more than 1000 are given.
	Limit int
}

// ObjectPage is a page of a list of objects: those longest unwritten first.
type ObjectPage struct {
	Objects []ObjectLine `json:"objects"`
	// Next is what to ask for to go on; empty if there are no more. A page may be short,
	// or empty, and have a next one: no more than 20,000 rows are looked at for one.
	Next string `json:"next,omitempty"`
}

// ObjectLine is an object in a list.
type ObjectLine struct {
	Key string `json:"key"`
	// State is where the object is. Status is that of the row, at Revision, or "Deleted".
	State    State  `json:"state"`
	Status   string `json:"status"`
	Revision uint64 `json:"revision"`
	// Since is when the status was written; that of a failure is not written again while its text is
	// the same. Of a deletion it is when that came.
	Since time.Time `json:"since,omitzero"`
	// Attempts is how many attempts in a row have failed, and Next when the next attempt is due;
	// as far as the reconciler could be asked. Error is what the last failure said.
	Attempts int       `json:"attempts,omitempty"`
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	// BlockedOn is what a blocked object waits for: the reason that its operation gave.
	BlockedOn string `json:"blocked_on,omitempty"`
}
