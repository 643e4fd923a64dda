// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Change is a change of the table: an object was written, or deleted.
type Change[Obj any] struct {
	Obj      Obj
	Revision uint64
	// Since is the revision since which the change is not reconciled: usually its own, or a lower one if
	// an earlier version of the row asked for the same.
	Since   uint64
	Deleted bool
	Lane    Lane
}

// Source has the changes of the table that were not observed.
type Source[Obj any] interface {
	// Lanes returns the lanes in which it may have a change now.
	Lanes() Lanes
	// Next returns the next change in a lane, and counts it as observed; false if it has none now.
	Next(Lane) (Change[Obj], bool)
}

// round is the state of a round: see [Core.Begin].
type round struct {
	now time.Duration
	// left is how many operations the round may still run. passedOver counts the keys whose turn came and
	// that did not run.
	left, passedOver int
	// entries: each operation gets an entry.
	entries bool
}

// maxPassedOver bounds the keys of a round whose turn comes and that do not run: of a table that is paused, the
// core reads a part in each round.
const maxPassedOver = 1024

// Begin begins a round of at most size operations at the given time; a size above RoundSize counts as
// RoundSize. entries: each operation gets an entry, because the source may have more than one change of a key
// in a round. Operations that were settled before must not be used any more.
func (c *Core[Obj]) Begin(now time.Duration, size int, entries bool) {
	c.freeGone()
	c.rounds++
	c.round = round{now: now, left: min(size, c.roundSize), entries: entries}
	c.beginProbes(now)
}

// Next makes the next operation of the round in op, which is zero. It returns false if none can be run now: the
// round has run as many as it may, or nothing is due, ready or in the source, or too many keys were passed over.
//
// Each operation has a place, see places. The keys in a lane and the changes in the source for it take turns. A key that
// does not run leaves its place to the next: it is paused, or waits for its group, or an
// operation on it runs.
func (c *Core[Obj]) Next(op *Operation[Obj], from Source[Obj]) bool {
	for c.round.left > 0 && c.round.passedOver < maxPassedOver {
		if runs, found := c.step(op, from); runs || !found {
			return runs
		}
	}
	return false
}

// step takes the key that comes next, and makes its operation unless it does not run. found is false if there
// is none.
func (c *Core[Obj]) step(op *Operation[Obj], from Source[Obj]) (runs, found bool) {
	if runs, found = c.fillPlace(op, from); runs {
		c.round.left--
		c.turn = (c.turn + 1) % len(places)
		c.markProbe(op)
	} else if found {
		c.round.passedOver++
	}
	return runs, found
}

// fillPlace takes the key for the next place.
func (c *Core[Obj]) fillPlace(op *Operation[Obj], from Source[Obj]) (runs, found bool) {
	has := from.Lanes()
	for _, lane := range orders[places[c.turn]] {
		if lane == dueLane {
			if e := c.dueNow(); e != nil {
				e.from = e.state
				c.take(e)
				return c.run(op, e), true
			}
			continue
		}
		ready := &c.lanes[lane]
		if has.Has(lane) && (ready.size == 0 || c.sourcesTurn[lane]) {
			if change, ok := from.Next(lane); ok {
				c.sourcesTurn[lane] = false
				return c.runChange(op, &change), true
			}
			has = from.Lanes()
		}
		if e := ready.head; e != nil {
			c.sourcesTurn[lane] = true
			e.from = Ready
			c.take(e)
			return c.run(op, e), true
		}
	}
	return false, false
}

// dueNow returns the key that has been due for longest; nil if none is due.
func (c *Core[Obj]) dueNow() *entry[Obj] {
	if e, at, ok := c.due.Min(); ok && time.Duration(at) <= c.round.now {
		return e
	}
	return nil
}

// HasWork reports whether a key is ready, or was due before the round began. The source may have more.
func (c *Core[Obj]) HasWork() bool {
	_, at, ok := c.due.Min()
	return c.counts[Ready] > 0 || ok && time.Duration(at) < c.round.now
}

// run makes the operation of an entry whose turn has come, and that is in no queue. The entry is in flight until
// the operation is settled or recalled. If it is not to be run, the entry is put where it waits.
func (c *Core[Obj]) run(op *Operation[Obj], e *entry[Obj]) bool {
	if e.paused {
		c.pause(e)
		return false
	}
	if !c.takeGroup(e) {
		return false
	}
	op.Obj, op.Revision, op.since, op.Deleted = e.obj, e.revision, e.since, e.deleted
	op.Again, op.Cause = e.from != Ready || e.seen != c.rounds, e.why()
	op.setEntry(e)
	c.put(e, InFlight)
	return true
}

// runChange makes the operation of a change. It needs no entry if nothing else is known of its key.
func (c *Core[Obj]) runChange(op *Operation[Obj], change *Change[Obj]) bool {
	c.observed = max(c.observed, change.Revision)
	e := c.find(change.Obj)
	switch {
	case e == nil && c.runsWithoutEntry(change):
		op.Obj, op.Revision, op.since, op.Deleted, op.lane = change.Obj, change.Revision, change.Since, change.Deleted, change.Lane
		op.Cause = change.Lane.why()
		return true
	case e == nil:
		e = c.addEntry(c.versionOf(change))
	case !c.observeKnown(e, change):
		return false
	}
	return c.run(op, e)
}

// runsWithoutEntry reports whether a change whose key has no entry can be run without one.
func (c *Core[Obj]) runsWithoutEntry(change *Change[Obj]) bool {
	return !c.round.entries && !c.isPaused(change.Obj) && (!c.grouping || c.groupOf(change.Obj) == "")
}

// giveBackTurn is called for an operation that Next has made and that is not run.
func (c *Core[Obj]) giveBackTurn() {
	c.round.left++
	c.round.passedOver++
	c.turn = (c.turn + len(places) - 1) % len(places)
}
