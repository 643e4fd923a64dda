// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import (
	"slices"

	"github.com/cilium/statedb"
)

// Range is a range of revisions: those above After and up to UpTo.
type Range struct{ After, UpTo statedb.Revision }

// Contains reports whether a revision is in the range.
func (r Range) Contains(revision statedb.Revision) bool {
	return revision > r.After && revision <= r.UpTo
}

// maxRanges bounds the ranges that are remembered. What the catch-up cursor hands over beyond that is
// handed over again by the main cursor.
const maxRanges = 64

// ahead remembers which versions were dealt with before the main cursor reaches them. It is needed if
// the rows carry no status that shows it.
type ahead struct {
	// ranges are those in which the catch-up cursor has handed over all objects, in rising order.
	ranges []Range
	// applied has the keys that were applied in a version that no cursor had read. last is the highest
	// of these revisions.
	applied map[string]statedb.Revision
	last    statedb.Revision
	// most is the number of keys in applied above which those are looked for that main has passed.
	most int
}

// leastForgotten is the number of keys up to which no key that main has passed is looked for.
const leastForgotten = 1024

// extend records that the catch-up cursor has handed over the objects of a range. A range with the
// same lower end grows.
func (a *ahead) extend(r Range) {
	if r.UpTo <= r.After {
		return
	}
	if n := len(a.ranges); n > 0 && a.ranges[n-1].After == r.After {
		a.ranges[n-1].UpTo = r.UpTo
	} else if n < maxRanges {
		a.ranges = append(a.ranges, r)
	}
}

// passed forgets what the main cursor has passed.
func (a *ahead) passed(revision statedb.Revision) {
	a.ranges = slices.DeleteFunc(a.ranges, func(r Range) bool { return r.UpTo <= revision })
	switch {
	case a.last <= revision:
		a.applied, a.last, a.most = nil, 0, 0
	case len(a.applied) > a.most:
		// Under a lasting load main never passes all of them.
		for key, at := range a.applied {
			if at <= revision {
				delete(a.applied, key)
			}
		}
		a.most = max(leastForgotten, 2*len(a.applied))
	}
}

// handedOver reports whether the catch-up cursor has handed over a version.
func (a *ahead) handedOver(revision statedb.Revision) bool {
	for _, r := range a.ranges {
		if r.Contains(revision) {
			return true
		}
	}
	return false
}

// seen reports whether a version that the main cursor reads was dealt with before.
func (o *Observer[Obj]) seen(obj Obj, revision statedb.Revision) bool {
	return o.before.handedOver(revision) || o.appliedBefore(obj, revision)
}

// appliedBefore reports whether a version, or a later one, was applied before a cursor read it.
func (o *Observer[Obj]) appliedBefore(obj Obj, revision statedb.Revision) bool {
	return len(o.before.applied) > 0 && revision <= o.before.applied[string(o.rows.Key(obj))]
}

// Applied reports whether a version that was looked up in the table, and that the main cursor has not
// read, was dealt with before: the rows carry no status that would show it.
func (o *Observer[Obj]) Applied(obj Obj, revision statedb.Revision) bool {
	return o.before != nil && o.seen(obj, revision)
}

// overtaken reports whether the table has a later version of an object, which was dealt with before.
// Then the change asks for nothing.
func (o *Observer[Obj]) overtaken(c change[Obj], txn statedb.ReadTxn) bool {
	if o.before == nil || len(o.before.ranges)+len(o.before.applied) == 0 {
		return false
	}
	row, revision, found := o.rows.Get(txn, c.object)
	return found && revision >= c.revision && o.seen(row, revision)
}

// NoteApplied records that a version was applied. It is called for versions that may be later than
// those that the cursors have read.
func (o *Observer[Obj]) NoteApplied(obj Obj, revision statedb.Revision) {
	if revision <= o.revision || o.before == nil || o.before.handedOver(revision) {
		return
	}
	a := o.before
	if a.applied == nil {
		a.applied = map[string]statedb.Revision{}
	}
	a.applied[string(o.rows.Key(obj))] = revision
	a.last = max(a.last, revision)
}

// Ahead returns the ranges above [Observer.Revision] in which the catch-up cursor has handed over all
// objects, in rising order; none if the rows carry a status. The result is valid until the next call
// of the observer.
func (o *Observer[Obj]) Ahead() []Range {
	if o.before == nil {
		return nil
	}
	return o.before.ranges
}
