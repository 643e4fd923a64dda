// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "time"

// Metrics are told how all objects of a kind are doing. The kind is that of [WithKind]. The calls
// come from the goroutines of the passes, several at once, and should return at once.
type Metrics interface {
	// FirstReconciled is called after the first pass of an object that was not paused,
	// whatever came of it, with the time since the object was wanted.
	FirstReconciled(kind string, after time.Duration)
	// FirstReady is called when an object is ready for the first time, with the time since
	// it was wanted.
	FirstReady(kind string, after time.Duration)
	// Deleted is called when an object is gone, with the time since its deletion was asked
	// for; since the first attempt, of a row that was taken out by force.
	Deleted(kind string, after time.Duration)
	// Drift is called when the outside system had changed by itself and was repaired, with
	// the time since the resource was seen as wanted last: the most that the drift can be
	// old.
	Drift(kind string, age time.Duration)
	// Observed is called when an object is counted anew: was is how it was counted before,
	// is how it is now. Who adds up the differences has the number of objects that are known,
	// exist, are ready and synced.
	Observed(kind string, was, is State)
}

// State is how an object is counted. The zero State is that of one that is not known, before its
// first pass and after its last.
type State struct {
	// Known: the object is in the table.
	Known bool
	// Exists: its external resource did when it was observed last.
	Exists bool
	// Ready and Synced: the conditions are True.
	Ready, Synced bool
}
