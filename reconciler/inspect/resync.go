// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// Resync is the record of one comparison of the target with the table: see reconciler.Config.Lister.
type Resync struct {
	// Started is when the listing began, Took how long it and the comparison took. Adopts: it was the first listing,
	// with which each row was compared before it was applied; then Took is the time of the listing, Missing counts
	// operations on objects that were not listed, and Orphan is 0.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Adopts  bool          `json:"adopts,omitempty"`

	// Listed counts the listed objects. Of the rows that are Done, Equal counts those that were left alone, Different
	// and Missing the others. They are applied again, except those that are paused or wait for a time of their own
	// anyway (reconciler.Requeue). Orphan counts the keys of listed objects that no row wants.
	Listed    int `json:"listed"`
	Equal     int `json:"equal"`
	Different int `json:"different"`
	Missing   int `json:"missing"`
	Orphan    int `json:"orphan"`

	// Error is the text of the error; empty if the listing worked and nothing awaits approval.
	Error string `json:"error,omitempty"`
	// Differences are the first few.
	Differences []Difference `json:"differences,omitempty"`
}

// The kinds of a [Difference].
const (
	Different = "different"
	Missing   = "missing"
	Orphan    = "orphan"
)

// Difference is an object that the target and the table do not have alike.
type Difference struct {
	// Key is the text of the key, Kind is "different", "missing" or "orphan".
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// Status is the status of the row in a [Plan] if it is not Done, such as "Pending"; empty elsewhere.
	Status string `json:"status,omitempty"`
	// Diff is the result of reconciler.Config.Diff, at most 1 KiB of it; empty without that function.
	Diff string `json:"diff,omitempty"`
}

// Summary returns one line, without a newline: how many objects were listed and how they were judged, and the error.
func (r Resync) Summary() string {
	if r.Error != "" && r.Equal+r.Different+r.Missing+r.Orphan == 0 {
		return "failed: " + text.Printable(r.Error)
	}
	adopts := ""
	if r.Adopts {
		adopts = " at the start"
	}
	judged := fmt.Sprintf("%d listed%s in %s: %d equal, %d different, %d missing, %d orphan",
		r.Listed, adopts, text.Duration(r.Took), r.Equal, r.Different, r.Missing, r.Orphan)
	if r.Error != "" {
		judged += "; " + text.Printable(r.Error)
	}
	return judged
}
