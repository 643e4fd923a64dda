// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "time"

// Metrics receives figures of all objects of a kind. The kind is that of [WithKind]. Its methods are
// called by the goroutines of the passes, several at a time, and should return quickly.
type Metrics interface {
	// FirstReconciled is called after the first pass of an object that was not paused, successful or
	// not. after is the time since the object was first desired.
	FirstReconciled(kind string, after time.Duration)
	// FirstReady is called when an object is ready for the first time. after is the time since the
	// object was first desired.
	FirstReady(kind string, after time.Duration)
	// Deleted is called when an object is gone. after is the time since its deletion was requested or,
	// for a row that was removed without [Writer.Delete], since the first attempt to delete its
	// resource.
	Deleted(kind string, after time.Duration)
	// Drift is called when a resource had changed in the outside system and was repaired. age is the
	// time since the resource was last observed as up to date: the upper bound for the age of the
	// drift.
	Drift(kind string, age time.Duration)
	// Observed is called when the state of an object changes from was to is. The sum of the differences
	// is the number of objects that are known, exist, are ready and are synced.
	Observed(kind string, was, is State)
}

// State is what is counted of an object. The zero State is that of an unknown object: before its first
// pass, and when it is gone.
type State struct {
	// Known reports whether the object has had a pass and is not gone.
	Known bool
	// Exists reports whether its external resource existed when it was last observed.
	Exists bool
	// Ready and Synced report whether the condition of that type is True.
	Ready, Synced bool
}
