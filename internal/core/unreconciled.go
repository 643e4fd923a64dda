// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "math"

// unreconciledEntry is an entry with its position in the heap [Core.unreconciled].
type unreconciledEntry[Obj any] struct{ *entry[Obj] }

func (o unreconciledEntry[Obj]) HeapPos() int       { return int(o.indexed.unreconciledPos) }
func (o unreconciledEntry[Obj]) SetHeapPos(pos int) { o.indexed.unreconciledPos = int32(pos) }

// untriedEntry is an entry with its position in the heap [Core.untried].
type untriedEntry[Obj any] struct{ *entry[Obj] }

func (t untriedEntry[Obj]) HeapPos() int       { return int(t.indexed.untriedPos) }
func (t untriedEntry[Obj]) SetHeapPos(pos int) { t.indexed.untriedPos = int32(pos) }

// untriedHeld and untriedRecorded are the indexes of Core.untried.
const (
	untriedHeld = iota
	untriedRecorded
	untriedHeaps
)

// untriedHeap returns the index of the heap of Core.untried that has an entry if it is untried.
func (e *entry[Obj]) untriedHeap() uint8 {
	if e.indexed.recorded != NotRecorded {
		return untriedRecorded
	}
	return untriedHeld
}

// unreconcile makes a key unreconciled that was reconciled until now: since the revision after the last
// observed one, which its row will have when the outcome is written. With records nothing is written
// into the row, so it is unreconciled since the revision of the row.
func (c *Core[Obj]) unreconcile(e *entry[Obj]) {
	switch {
	case e.since > 0:
	case c.records:
		e.since = e.revision
	default:
		e.since = c.observed + 1
	}
}

// lowerSince lowers the revision since which a version is unreconciled to the given one: an earlier change
// is reconciled only together with the later one. It does nothing if the version is reconciled, or
// unreconciled since a lower revision.
func (v *rowVersion[Obj]) lowerSince(revision uint64) { v.since = min(v.since, revision) }

// LowWatermark returns the lowest observed revision that is not reconciled; 0 if all are.
func (c *Core[Obj]) LowWatermark() uint64 {
	_, since, _ := c.unreconciled.Min()
	return uint64(since)
}

// Attempted returns the revision up to which every change has been attempted, or replaced by a
// later one, if changes were observed up to the given revision. A change that is paused, or held
// for the minimum backoff, counts as attempted: it shows in LowWatermark.
func (c *Core[Obj]) Attempted(observed uint64) uint64 {
	for i := range c.untried {
		if _, since, ok := c.untried[i].Min(); ok {
			observed = min(observed, uint64(since)-1)
		}
	}
	return observed
}

// Unreconciled describes a key that is not reconciled.
type Unreconciled[Obj any] struct {
	// Obj, Revision and Deleted are the version that was observed last. Since is the revision since
	// which the key is not reconciled.
	Obj             Obj
	Since, Revision uint64
	Deleted         bool
	State           State
	// Failures counts the failures in a row. Failure is the error text of the last attempt; empty
	// if it did not fail.
	Failures int
	Failure  string
	// Tried reports whether that version has been attempted. Paused reports whether its object is paused,
	// unless its operation runs.
	Tried, Paused bool
}

// AllUnreconciled calls yield for the unreconciled keys, in the order of Since, until yield returns
// false. The cost grows with the number of keys that it yields.
func (c *Core[Obj]) AllUnreconciled(yield func(Unreconciled[Obj]) bool) {
	c.UnreconciledSince(0, yield)
}

// UnreconciledSince is [Core.AllUnreconciled] without the keys that are unreconciled since an earlier
// revision. It is cheap to pass those.
func (c *Core[Obj]) UnreconciledSince(revision uint64, yield func(Unreconciled[Obj]) bool) {
	from := int64(min(revision, math.MaxInt64))
	c.unreconciled.AscendFrom(from, func(o unreconciledEntry[Obj], _ int64) bool {
		return yield(o.describeUnreconciled())
	})
}

// CountUnreconciled returns how many keys are unreconciled since the given revision or an earlier
// one. It counts up to limit, but returns the exact number where that needs no counting. O(limit).
func (c *Core[Obj]) CountUnreconciled(revision uint64, limit int) int {
	if revision >= c.newestSince {
		return c.unreconciled.Len()
	}
	return c.unreconciled.CountUpTo(int64(min(revision, math.MaxInt64)), limit)
}

// UnreconciledOf describes the key of an object; false if it is reconciled, as far as changes were
// observed.
func (c *Core[Obj]) UnreconciledOf(obj Obj) (Unreconciled[Obj], bool) {
	e := c.find(obj)
	if e == nil || e.unreconciled().since == 0 {
		return Unreconciled[Obj]{}, false
	}
	return e.describeUnreconciled(), true
}

// describeUnreconciled describes an unreconciled entry.
func (e *entry[Obj]) describeUnreconciled() Unreconciled[Obj] {
	return Unreconciled[Obj]{
		Obj: e.obj, Since: e.unreconciled().since, Revision: e.revision, Deleted: e.deleted, State: e.state,
		// An orphan counts as attempted for the watermark only.
		Failures: int(e.failures), Failure: e.failure(), Tried: e.tried && e.cause != CauseSweep,
		Paused: e.paused && !e.runsNewest(),
	}
}

// failuresSeen bounds the keys that Failures visits.
const failuresSeen = 1000

// Failures calls yield with the error texts of failing keys, in the order of Since, until yield
// returns false. It visits a bounded number of keys, so it may miss failures behind many keys that
// wait for something else.
func (c *Core[Obj]) Failures(yield func(text string) bool) {
	seen := 0
	c.unreconciled.Ascend(func(o unreconciledEntry[Obj], _ int64) bool {
		seen++
		return (o.result != hasFailed || yield(o.failure())) && seen < failuresSeen
	})
}
