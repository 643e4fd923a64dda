// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

// Change is a change of a row as a source sees it. Several changes of a row may have become one.
type Change[Obj any] struct {
	// Object is the row as it is, or as it was last if it was deleted.
	Object Obj
	// Old is the row as the source saw it before, also if a predicate rejected that; the zero
	// value if the row is Created.
	Old Obj
	// Created: the source sees the row for the first time, or again after its deletion. At the
	// start all rows are.
	Created bool
	// Deleted: the row is not there any more. One that is Created as well was deleted before
	// the source saw it.
	Deleted bool
}

// Predicate reports whether a change matters; one that does not leads to no request. Of
// several predicates all have to hold, and all are called for every change.
type Predicate[Obj any] func(change Change[Obj]) bool

// ChangesOf returns a predicate for changes of a part of a row, which part returns: others,
// such as those of a status that the reconciler itself writes, do not matter. A row that is
// new, and its deletion, do.
func ChangesOf[Obj any, Part comparable](part func(obj Obj) Part) Predicate[Obj] {
	return ChangesOfFunc(part, func(a, b Part) bool { return a == b })
}

// ChangesOfFunc is [ChangesOf] for parts that are not comparable with ==, such as slices and
// maps, or need another comparison: equal reports whether two are the same.
func ChangesOfFunc[Obj, Part any](part func(obj Obj) Part, equal func(a, b Part) bool) Predicate[Obj] {
	return func(change Change[Obj]) bool {
		return change.Created || change.Deleted || !equal(part(change.Old), part(change.Object))
	}
}
