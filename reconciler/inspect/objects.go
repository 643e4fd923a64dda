// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// ObjectQuery selects the objects that [Inspector].Objects lists.
type ObjectQuery struct {
	// Status is the status that a row must have: "Error", "Blocked", "Pending", "Done", or if the
	// rows carry the status "Refreshing" or "Unset", in any case. Empty means every row. "Deleted"
	// lists the deletions that are not carried out, instead of rows.
	Status string
	// After continues a list: it is [ObjectPage].Next of the page before, or empty for the first page.
	After string
	// Limit bounds the number of objects. Zero or below means 50; more than 1000 count as 1000.
	Limit int
}

// ObjectPage is one page of a list of objects, those that were not written for the longest time
// first.
type ObjectPage struct {
	Objects []ObjectLine `json:"objects"`
	// Next is [ObjectQuery].After of the next page; empty if this page is the last. About 20,000 rows, or
	// objects that are not applied, are read for a page, so a page may be short, or even empty, and still
	// have a next one.
	Next string `json:"next,omitempty"`
}

// ObjectLine is one object in a list.
type ObjectLine struct {
	// Key is the text of the object's key.
	Key string `json:"key"`
	// State is the state of the object. Status is the status of the row at Revision, or "Deleted".
	State    State  `json:"state"`
	Status   string `json:"status"`
	Revision uint64 `json:"revision"`
	// Since is the time when the status was written. A failure with the same text as the one before
	// writes no status. For a deletion, Since is the time of the deletion.
	Since time.Time `json:"since,omitzero"`
	// Attempts is the number of failures in a row. Next is the time of the next attempt. Both are
	// zero if the loop did not answer. Error is the text of the last failure.
	Attempts int       `json:"attempts,omitempty"`
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	// BlockedOn is the reason that the operation of a blocked object returned.
	BlockedOn string `json:"blocked_on,omitempty"`
}
