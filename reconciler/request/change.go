// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

// Change is a change of a row as a source sees it. Several changes of a row may have been merged
// into one.
type Change[Obj any] struct {
	// Object is the row as it is now, or its last version if it was deleted.
	Object Obj
	// Old is the version that the source saw before, even if a predicate rejected that. It is the
	// zero value if Created is set.
	Old Obj
	// Created reports that the source sees the row for the first time, or for the first time after
	// its deletion. It is set for all rows that exist at the start.
	Created bool
	// Deleted reports that the row no longer exists. If Created is set as well, the row was deleted
	// before the source saw it.
	Deleted bool
}

// Predicate reports whether a change matters. A change that does not matter leads to no request, except for a deletion
// of an object ([For]) or of a row that is owned ([Owns]). A change matters only if all predicates of the source return
// true. All of them are called for every change.
type Predicate[Obj any] func(change Change[Obj]) bool

// ChangesOf returns a predicate that accepts changes of one part of a row, which part returns.
// Changes of other parts, such as a status that the reconciler itself writes, are rejected. New
// rows and deletions are accepted. If part is nil, so is the predicate, which is an error of [New].
func ChangesOf[Obj any, Part comparable](part func(obj Obj) Part) Predicate[Obj] {
	return ChangesOfFunc(part, func(a, b Part) bool { return a == b })
}

// ChangesOfFunc is [ChangesOf] for parts that cannot be compared with ==, such as slices and maps,
// or that need another comparison. equal reports whether two parts are the same.
func ChangesOfFunc[Obj, Part any](part func(obj Obj) Part, equal func(a, b Part) bool) Predicate[Obj] {
	if part == nil || equal == nil {
		return nil
	}
	return func(change Change[Obj]) bool {
		return change.Created || change.Deleted || !equal(part(change.Old), part(change.Object))
	}
}
