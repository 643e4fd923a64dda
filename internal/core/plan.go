// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"
)

// round is the state between Begin and End.
type round[Obj any] struct {
	now  time.Duration
	size int
	// maxFresh bounds the ready keys in the lane Fresh; 0 if there is no catch-up cursor.
	maxFresh int
	// reserved is the number of items of the round that are kept for due keys.
	reserved int
	// changes are the items for the changes observed in this round, in that order; lanes counts
	// them by lane.
	changes []Operation[Obj]
	lanes   [NumLanes]int
	items   []Operation[Obj]
	due     []*entry[Obj]
}

// Begin begins a round of at most size items at the given time; a size above RoundSize counts as
// RoundSize. maxFresh bounds the changes that the catch-up cursor may have waiting in the lane
// Fresh; 0 means that there is no catch-up cursor. Items that were settled before must not be used any
// more.
func (c *Core[Obj]) Begin(now time.Duration, size, maxFresh int) {
	c.freeGone()
	c.rounds++
	c.round.now, c.round.maxFresh = now, maxFresh
	c.round.size = min(size, c.roundSize)
	c.beginProbes(now)
	c.round.reserved = c.due.CountUpTo(int64(now), c.guaranteed())
}

// guaranteed returns how many items of the round due keys get at least, if so many are due.
func (c *Core[Obj]) guaranteed() int {
	first := (share - c.turn%share) % share
	return max(0, (c.round.size-first+share-1)/share)
}

// Full reports whether a lane has no room for another change: a cursor stops there. Without a
// catch-up cursor only what this round will run is taken in or, while keys are ready, up to a round
// in each lane. With a catch-up cursor each lane takes in at most half a round, and the lane
// Backlog also what Fresh leaves of a whole round.
func (c *Core[Obj]) Full(lane Lane) bool {
	half := (c.roundSize + 1) / 2
	switch {
	case c.round.maxFresh > 0 && lane == Fresh:
		return c.ahead(Fresh) >= min(half, c.round.maxFresh)
	case c.round.maxFresh > 0 && lane == Backlog:
		return c.ahead(Backlog) >= max(half, c.round.size-c.ahead(Fresh))
	case c.round.maxFresh > 0:
		return c.ahead(lane) >= half
	case c.readyKeys() == 0:
		return len(c.round.changes) >= c.round.size-c.round.reserved
	}
	return c.ahead(lane) >= c.round.size
}

// ahead returns how many changes of a lane are ready or were observed in this round.
func (c *Core[Obj]) ahead(lane Lane) int { return c.lanes[lane].size + c.round.lanes[lane] }

// Plan returns the items of the round. If everything fits, changes come in the order in which they
// were observed; otherwise each lane has its places. Due keys come in the order of their times, so
// that rounds that are cut short do not leave out the same keys each time. They have every fourth
// place while there is other work. The slice is valid until End.
func (c *Core[Obj]) Plan() []Operation[Obj] {
	if c.plansInOrder() {
		c.planChanges()
	} else {
		c.planLanes()
	}
	c.markProbes(c.round.items)
	return c.round.items
}

// plansInOrder reports whether all changes of the round are run in the order in which they were
// observed. Then they need no entries.
func (c *Core[Obj]) plansInOrder() bool {
	return c.readyKeys() == 0 && c.paused == nil && !c.grouping && c.round.maxFresh == 0 &&
		len(c.round.changes)+c.round.reserved <= c.round.size
}

// planChanges plans all observed changes in their order, with due keys in every fourth place.
func (c *Core[Obj]) planChanges() {
	changes := c.round.changes
	due := c.takeDue(c.round.size - len(changes))
	if len(due) == 0 {
		// The plan takes over the slice of the changes. End empties both slices for reuse.
		c.round.items, c.round.changes = changes, c.round.items
		return
	}
	for place := c.turn; len(due)+len(changes) > 0; place++ {
		if len(due) > 0 && (place%share == 0 || len(changes) == 0) {
			c.addItem(due[0])
			due = due[1:]
		} else {
			c.round.items = append(c.round.items, changes[0])
			changes = changes[1:]
		}
	}
}

// planLanes puts the observed changes into their lanes, and plans from the lanes and the due keys by
// the places. An entry that may not be run now leaves its place to the next.
func (c *Core[Obj]) planLanes() {
	for i := range c.round.changes {
		it := &c.round.changes[i]
		if it.entry == nil {
			it.entry = c.addEntry(it)
		}
		c.put(it.entry, Ready)
	}
	due := c.takeDue(max(c.guaranteed(), c.round.size-c.readyKeys()))
	for place := c.turn; len(c.round.items) < c.round.size; {
		// More keys may be ready now than when the due keys were taken: a group may have become
		// free.
		full := len(c.round.items)+len(due) == c.round.size
		if len(due) > 0 && (place%share == 0 || full || c.readyKeys() == 0) {
			c.addItem(due[0])
			due = due[1:]
			place++
			continue
		}
		e := c.nextReady(place)
		if e == nil {
			return
		}
		e.from = Ready
		c.take(e)
		if c.admit(e) {
			c.addItem(e)
			place++
		}
	}
}

// takeDue takes due entries out of the heap until the round has n, and returns them in the order of
// their times.
func (c *Core[Obj]) takeDue(n int) []*entry[Obj] {
	for len(c.round.due) < n {
		e, at, ok := c.due.Min()
		if !ok || time.Duration(at) > c.round.now {
			break
		}
		e.from = e.state
		c.take(e)
		if e.paused {
			c.pause(e)
		} else if c.admit(e) {
			c.round.due = append(c.round.due, e)
		}
	}
	slices.SortFunc(c.round.due, func(a, b *entry[Obj]) int {
		return cmp.Or(cmp.Compare(a.dueAt, b.dueAt), byRevision(a, b))
	})
	return c.round.due
}

// addItem adds the item of an admitted entry to the plan.
func (c *Core[Obj]) addItem(e *entry[Obj]) {
	var it *Operation[Obj]
	c.round.items, it = extend(c.round.items)
	it.Obj, it.Revision, it.since, it.Deleted = e.obj, e.revision, e.since, e.deleted
	it.Again, it.Cause = e.from != Ready || e.seen != c.rounds, e.why()
	it.setEntry(e)
}

// extend adds a zero element to a slice that was cleared by reuse. An operation is large: it is filled in
// place.
func extend[T any](s []T) ([]T, *T) {
	n := len(s)
	s = slices.Grow(s, 1)[:n+1]
	return s, &s[n]
}

// End ends the round. ran is the number of items whose operation was run or launched.
func (c *Core[Obj]) End(ran int) {
	c.turn = (c.turn + ran) % len(places)
	// They are swapped back, if Plan has swapped them: so plans in order use the memory of one slice.
	c.round.changes, c.round.items = reuse(c.round.items), reuse(c.round.changes)
	c.round.due = reuse(c.round.due)
	c.round.lanes = [NumLanes]int{}
}

// reuse clears a slice, so that it keeps nothing alive, and returns it with length 0 and its
// memory.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}
