// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"

	"github.com/statekeel/statekeel/internal/keyheap"
)

// unreconciledEntry is an entry with its position in the heap [Core.unreconciled].
type unreconciledEntry[Obj any] struct{ *entry[Obj] }

func (o unreconciledEntry[Obj]) HeapPos() int       { return int(o.unreconciledPos) }
func (o unreconciledEntry[Obj]) SetHeapPos(pos int) { o.unreconciledPos = int32(pos) }

// untriedEntry is an entry with its position in the heap [Core.untried].
type untriedEntry[Obj any] struct{ *entry[Obj] }

func (t untriedEntry[Obj]) HeapPos() int       { return int(t.untriedPos) }
func (t untriedEntry[Obj]) SetHeapPos(pos int) { t.untriedPos = int32(pos) }

// untriedHeld and untriedRecorded are the indexes of Core.untried.
const (
	untriedHeld = iota
	untriedRecorded
	untriedHeaps
)

// untriedHeap returns the heap of an untried entry.
func (c *Core[Obj]) untriedHeap(e *entry[Obj]) *keyheap.Heap[untriedEntry[Obj]] {
	if e.recorded != NotRecorded {
		return &c.untried[untriedRecorded]
	}
	return &c.untried[untriedHeld]
}

// pushUntried counts a change of an entry, since a revision, as not attempted.
func (c *Core[Obj]) pushUntried(e *entry[Obj], since uint64) {
	c.untriedHeap(e).Push(untriedEntry[Obj]{e}, int64(since))
}

// untriedSince returns the revision since which the change of an untried entry is not attempted.
func (c *Core[Obj]) untriedSince(e *entry[Obj]) uint64 {
	if n, noted := c.later[e]; noted && !n.again && (e.since == 0 || e.tried) {
		return n.since
	}
	return e.since
}

// markUnreconciled counts an entry as unreconciled, unless it is only run again. If it was reconciled
// until now, it is unreconciled since the revision after the last observed one, which its row will have
// when the outcome is written. With records nothing is written into the row, so it is unreconciled
// since the revision of the row; an orphan has none.
func (c *Core[Obj]) markUnreconciled(e *entry[Obj]) {
	if e.unreconciledPos >= 0 || e.repeat {
		return
	}
	switch {
	case e.since > 0:
	case c.records && e.cause != CauseSweep:
		e.since = e.revision
	default:
		e.since = c.observed + 1
	}
	c.unreconciled.Push(unreconciledEntry[Obj]{e}, int64(e.since))
	c.newestSince = max(c.newestSince, e.since)
}

// markUntried counts the change of an entry as not attempted, if it has not been.
func (c *Core[Obj]) markUntried(e *entry[Obj]) {
	if !e.tried && e.untriedPos < 0 {
		c.pushUntried(e, e.since)
	}
}

// markReconciled counts an entry as reconciled, and its change as attempted.
func (c *Core[Obj]) markReconciled(e *entry[Obj]) {
	if e.unreconciledPos >= 0 {
		c.unreconciled.Remove(unreconciledEntry[Obj]{e})
	}
	e.since, e.wanted = 0, 0
	c.touchRecorded(e)
	c.clearUntried(e)
}

// clearUntried stops counting the change of an entry as not attempted.
func (c *Core[Obj]) clearUntried(e *entry[Obj]) {
	if e.untriedPos >= 0 {
		c.untriedHeap(e).Remove(untriedEntry[Obj]{e})
	}
}

// lowerSince lowers the revision since which an entry is unreconciled to the given one: an earlier
// change is reconciled only together with the later one. It does nothing if the entry is
// reconciled, or unreconciled since a lower revision.
func (c *Core[Obj]) lowerSince(e *entry[Obj], revision uint64) {
	if e.since <= revision {
		return
	}
	e.since = revision
	c.recordAtOnce(e)
	if e.unreconciledPos >= 0 {
		c.unreconciled.Remove(unreconciledEntry[Obj]{e})
		c.unreconciled.Push(unreconciledEntry[Obj]{e}, int64(revision))
	}
	if e.untriedPos >= 0 && !e.tried {
		c.clearUntried(e)
		c.pushUntried(e, revision)
	}
}

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
	Obj Obj
	// Since is the revision since which the key is not reconciled. Revision is that of the version
	// that was observed last.
	Since, Revision uint64

	Deleted bool
	State   State
	// Failures counts the failures in a row. Failure is the error text of the last attempt; empty
	// if it did not fail.
	Failures int
	Failure  string
	// Tried reports whether the change has been attempted.
	Tried bool
}

// AllUnreconciled calls yield for the unreconciled keys, in the order of Since, until yield returns
// false. The cost grows with the number of keys that it yields.
func (c *Core[Obj]) AllUnreconciled(yield func(Unreconciled[Obj]) bool) {
	c.unreconciled.Ascend(func(o unreconciledEntry[Obj], _ int64) bool { return yield(c.describeUnreconciled(o.entry)) })
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
	if e == nil || e.unreconciledPos < 0 {
		return Unreconciled[Obj]{}, false
	}
	return c.describeUnreconciled(e), true
}

// describeUnreconciled describes an unreconciled entry. If only the later change of a key in flight
// is unreconciled, the revisions are those of that change.
func (c *Core[Obj]) describeUnreconciled(e *entry[Obj]) Unreconciled[Obj] {
	d := Unreconciled[Obj]{
		Obj: e.obj, Since: e.since, Revision: e.revision, Deleted: e.deleted, State: e.state,
		// An orphan counts as attempted for the watermark only.
		Failures: int(e.failures), Tried: e.tried && e.cause != CauseSweep,
	}
	if e.failure != nil {
		d.Failure = *e.failure
	}
	if d.Since == 0 {
		n := c.later[e]
		d.Since, d.Revision, d.Tried = n.since, n.item.Revision, false
	}
	return d
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
		return (o.failure == nil || yield(*o.failure)) && seen < failuresSeen
	})
}
