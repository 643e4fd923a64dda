// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "math"

// owing is an entry as the heap of those that are not reconciled sees it.
type owing[Obj any] struct{ *entry[Obj] }

func (o owing[Obj]) HeapPos() int       { return int(o.owedPos) }
func (o owing[Obj]) SetHeapPos(pos int) { o.owedPos = int32(pos) }

// trying is an entry as the heap of those that have not been attempted sees it.
type trying[Obj any] struct{ *entry[Obj] }

func (t trying[Obj]) HeapPos() int       { return int(t.untriedPos) }
func (t trying[Obj]) SetHeapPos(pos int) { t.untriedPos = int32(pos) }

// owe makes an entry count as not reconciled. One that was reconciled owes what comes
// after all that was observed: that it fails is news, not old.
func (c *Core[Obj]) owe(e *entry[Obj]) {
	if e.owedPos >= 0 {
		return
	}
	if e.since == 0 {
		e.since = c.observed + 1
	}
	c.owed.Push(owing[Obj]{e}, int64(e.since))
	c.newestDebt = max(c.newestDebt, e.since)
}

// try makes an entry count as not attempted, unless it has been.
func (c *Core[Obj]) try(e *entry[Obj]) {
	if !e.tried && e.untriedPos < 0 {
		c.untried.Push(trying[Obj]{e}, int64(e.since))
	}
}

// pay makes an entry count as reconciled, and thus as attempted.
func (c *Core[Obj]) pay(e *entry[Obj]) {
	if e.owedPos >= 0 {
		c.owed.Remove(owing[Obj]{e})
	}
	e.since, e.wanted = 0, 0
	c.excuse(e)
}

// excuse makes an entry not count as one that is still to be attempted.
func (c *Core[Obj]) excuse(e *entry[Obj]) {
	if e.untriedPos >= 0 {
		c.untried.Remove(trying[Obj]{e})
	}
}

// oweFrom makes an entry that owes a later change owe one of an earlier revision: it was
// there first, and is only reconciled when the later one is.
func (c *Core[Obj]) oweFrom(e *entry[Obj], revision uint64) {
	if e.since <= revision {
		return
	}
	e.since = revision
	if e.owedPos >= 0 {
		c.owed.Remove(owing[Obj]{e})
		c.owed.Push(owing[Obj]{e}, int64(revision))
	}
	if e.untriedPos >= 0 && !e.tried {
		c.untried.Remove(trying[Obj]{e})
		c.untried.Push(trying[Obj]{e}, int64(revision))
	}
}

// LowWatermark returns the lowest revision that was observed and is not
// reconciled, or 0 if all that was observed is.
func (c *Core[Obj]) LowWatermark() uint64 {
	_, since, _ := c.owed.Min()
	return uint64(since)
}

// Attempted returns the revision up to which every object has been attempted at
// least once, given the revision up to which changes have been observed. A change
// held back for its key's minimum backoff, and a paused one, counts as attempted: it
// shows in LowWatermark.
func (c *Core[Obj]) Attempted(observed uint64) uint64 {
	if _, since, ok := c.untried.Min(); ok {
		return min(observed, uint64(since)-1)
	}
	return observed
}

// Debt is a key that is not reconciled.
type Debt[Obj any] struct {
	Obj Obj
	// Since is the revision from which on it is not reconciled, Revision that of the
	// latest version that was observed.
	Since, Revision uint64

	Deleted bool
	State   State
	// Failures counts those in a row; Failure is the text of the last attempt's
	// error, empty if it did not fail.
	Failures int
	Failure  string
	// Tried: the change has been attempted.
	Tried bool
}

// Debts calls yield with the keys that are not reconciled, the longest so first, until
// yield returns false. The cost grows with what it yields.
func (c *Core[Obj]) Debts(yield func(Debt[Obj]) bool) {
	c.owed.Ascend(func(o owing[Obj], _ int64) bool { return yield(c.debt(o.entry)) })
}

// DebtsUpTo returns how many keys owe a change up to a revision, but stops counting at
// limit, unless it knows without. O(limit).
func (c *Core[Obj]) DebtsUpTo(revision uint64, limit int) int {
	if revision >= c.newestDebt {
		return c.owed.Len()
	}
	return c.owed.CountUpTo(int64(min(revision, math.MaxInt64)), limit)
}

// DebtOf returns what the key of an object owes; false if it is reconciled, as far as it
// was observed.
func (c *Core[Obj]) DebtOf(obj Obj) (Debt[Obj], bool) {
	e := c.find(obj)
	if e == nil || e.owedPos < 0 {
		return Debt[Obj]{}, false
	}
	return c.debt(e), true
}

func (c *Core[Obj]) debt(e *entry[Obj]) Debt[Obj] {
	d := Debt[Obj]{
		Obj: e.obj, Since: e.since, Revision: e.revision, Deleted: e.deleted, State: e.state,
		// What a sweep found counts as attempted for the watermark only.
		Failures: int(e.failures), Tried: e.tried && e.cause != CauseSweep,
	}
	if e.failure != nil {
		d.Failure = *e.failure
	}
	if d.Since == 0 {
		n := c.notes[e]
		d.Since, d.Revision, d.Tried = n.since, n.item.Revision, false
	}
	return d
}

// failuresSeen bounds the keys that Failures looks at: most may wait without failing.
const failuresSeen = 1000

// Failures calls yield with the error texts of failing keys, the longest unreconciled
// first, until yield returns false. It looks at a bounded number of keys, so that it may
// miss failures behind a crowd of keys that wait for something else.
func (c *Core[Obj]) Failures(yield func(text string) bool) {
	seen := 0
	c.owed.Ascend(func(o owing[Obj], _ int64) bool {
		seen++
		return (o.failure == nil || yield(*o.failure)) && seen < failuresSeen
	})
}
