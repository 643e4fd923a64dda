// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Need is what a blocked operation needs of a loop: that a row is applied, or that deletions are carried out. Package
// needs implements it. It never changes: several objects may have the same.
type Need interface {
	// Begin begins the wait of an object that is blocked.
	Begin() Wait
}

// Wait is the wait of one blocked object for a [Need]. Begin and End are called by the goroutine of its loop, the other
// methods by any.
type Wait interface {
	// Released returns a channel that is closed when the operation should run again.
	Released() <-chan struct{}
	// Why returns what holds the need up now, for people; it is empty if nothing more is known than the reason says.
	Why() string
	// Needed calls yield for objects that the wait is for, until it returns false.
	Needed(yield func(Needed) bool)
	// Outlives reports whether the wait still counts when its object is blocked again and waits for others: what is known
	// by it is not known by them.
	Outlives(others []Wait) bool
	// End ends the wait. It is called once.
	End()
}

// Needed is an object that another one needs. It is comparable.
type Needed struct {
	In  Loop
	Key string
}

// Loop is a loop, for those that look for a circle of needs. Its methods are safe from any goroutine.
type Loop interface {
	// WaitsOf returns the waits of a blocked object.
	WaitsOf(key string) []Wait
	// NameOf returns the name of an object for people, with that of the reconciler.
	NameOf(key string) string
}
