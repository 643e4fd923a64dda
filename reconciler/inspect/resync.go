// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// Resync is the record of one comparison of the target with the table: see reconciler.Config.Lister.
type Resync struct {
	// Started is when the listing began, Took how long it and the comparison took. Adopts: it was the first listing,
	// with which each row was compared before it was applied; Took is the time of the listing then.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Adopts  bool          `json:"adopts,omitempty"`

	// Listed counts the listed objects. Of the rows that were judged, Equal counts those that were left alone,
	// Different and Missing those that are applied again. Orphan counts the listed objects that no row wants.
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
	// Diff is the result of reconciler.Config.Diff, at most 1 KiB of it; empty without that function.
	Diff string `json:"diff,omitempty"`
}
