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
	// Outdated reports whether a later version of the row may have been read before.
	Outdated bool
}

// Source has the changes of the table that were not observed.
type Source[Obj any] interface {
	// Lanes returns the lanes in which it may have a change now.
	Lanes() Lanes
	// Next returns the next change in a lane, and counts it as observed; false if it has none now.
	Next(Lane) (Change[Obj], bool)
}

// Begin begins a round of at most size operations at the given time; a size above RoundSize counts as
// RoundSize. entries: each operation gets an entry, because the source may have more than one change of a key
// in a round. Operations that were settled before must not be used any more.
func (c *Core[Obj]) Begin(now time.Duration, size int, entries bool) {
	c.keys.freeGone()
	c.round.begin(now, min(size, c.roundSize), entries)
}

// Next makes the next operation of the round in op, which is zero. It returns false if none can be run now: the
// round has run as many as it may, or nothing is due, ready or in the source, or too many keys were passed over.
//
// Each operation has a place, see places. The keys in a lane and the changes in the source for it take turns. A key
// that does not run leaves its place to the next: it is paused, or waits for its group, or an operation on it runs.
func (c *Core[Obj]) Next(op *Operation[Obj], from Source[Obj]) bool {
	for !c.round.ended() {
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
		c.round.fill()
	} else if found {
		c.round.passedOver++
	}
	return runs, found
}

// fillPlace takes the key for the next place.
func (c *Core[Obj]) fillPlace(op *Operation[Obj], from Source[Obj]) (runs, found bool) {
	has := from.Lanes()
	for _, lane := range c.round.place() {
		if lane == dueLane {
			if e := c.queues.dueBy(c.round.now); e != nil {
				return c.run(op, c.queues.takeTurn(e)), true
			}
			continue
		}
		ready := &c.queues.lanes[lane]
		if has.Has(lane) && (ready.size == 0 || c.round.sourcesTurn[lane]) {
			if change, ok := from.Next(lane); ok {
				c.round.sourcesTurn[lane] = false
				return c.runChange(op, &change), true
			}
			has = from.Lanes()
		}
		if e := ready.head; e != nil {
			c.round.sourcesTurn[lane] = true
			return c.run(op, c.queues.takeTurn(e)), true
		}
	}
	return false, false
}

// HasWork reports whether a key is ready, or was due before the round began. The source may have more.
func (c *Core[Obj]) HasWork() bool {
	return c.Index.figures.States[Ready] > 0 || c.queues.dueBy(c.round.now-1) != nil
}

// NextDue returns when the next key is due; 0 if a key is ready, false if no key waits for a time.
func (c *Core[Obj]) NextDue() (time.Duration, bool) {
	if c.Index.figures.States[Ready] > 0 {
		return 0, true
	}
	_, at, ok := c.queues.due.Min()
	return time.Duration(at), ok
}

// run makes the operation of an entry whose turn has come, and that is in no queue. The entry is in flight until
// the operation is settled or recalled. If it is not to be run, the entry is put where it waits.
func (c *Core[Obj]) run(op *Operation[Obj], e *entry[Obj]) bool {
	v := &e.version
	if v.paused = c.paused.has(v.obj); v.paused {
		// A walk may not have visited it.
		c.queues.pause(e)
		return false
	}
	if !c.queues.enterGroup(e) {
		return false
	}
	op.entry, op.since, op.lane, op.Outcome.Wanted = e, v.since, v.lane, v.wanted
	op.Obj, op.Revision, op.Deleted = v.obj, v.revision, v.deleted
	op.Turn.Waited, op.Turn.Outdated, op.Turn.Cause = e.from != Ready || v.seen != c.round.number, v.outdated, e.why()
	op.Turn.Looks, op.Turn.Repeats = e.looks(), v.repeats
	op.Outcome.RowKind, op.Failures, op.Tries = e.past.rowKind, e.past.failures, e.past.tries
	c.queues.put(e, InFlight)
	return true
}

// runChange makes the operation of a change. It needs no entry if nothing else is known of its key.
func (c *Core[Obj]) runChange(op *Operation[Obj], change *Change[Obj]) bool {
	e := c.keys.find(change.Obj)
	if e == nil && !c.round.entries && !c.paused.has(change.Obj) && c.queues.groups.name(change.Obj) == "" {
		c.observed = max(c.observed, change.Revision)
		op.since, op.lane = change.Since, change.Lane
		op.Obj, op.Revision, op.Deleted = change.Obj, change.Revision, change.Deleted
		op.Turn.Cause = change.Lane.why()
		if change.Deleted {
			op.Outcome.Wanted = max(1, c.round.now)
		}
		return true
	}
	e = c.observe(e, change)
	return e != nil && c.run(op, e)
}

// Renew updates an operation that [Core.Next] has made to a later version of its object in the table, which
// the source may not have handed over yet. since is as [Change.Since]. It reports whether the operation may still
// be run. If not, the key waits: its object is paused now, or belongs to another group, which is busy.
func (c *Core[Obj]) Renew(op *Operation[Obj], obj Obj, revision, since uint64) bool {
	if revision <= op.Revision {
		return true
	}
	change := Change[Obj]{Obj: obj, Revision: revision, Since: since, Lane: op.lane}
	if change.Lane == Deletion {
		change.Lane = Backlog
	}
	e, v := c.entryOf(op), c.versionOf(&change)
	e.take(&v, c.same, c.round.now)
	c.queues.take(e)
	c.queues.changeGroup(e, obj)
	e.version.lane, e.from = change.Lane, Ready
	waited := op.Turn.Waited
	runs := c.run(op, e)
	op.Turn.Waited = waited
	if !runs {
		c.round.giveBack()
	}
	return runs
}

// Recall takes back an operation that was not run, of this round or of an earlier one. A change goes to the front
// of its lane, any other key back to where it waited, and keeps its group. If the object was changed meanwhile,
// the change counts. Recall several operations in reverse order. forgotten is as for [Core.ObserveSettled].
func (c *Core[Obj]) Recall(now time.Duration, op *Operation[Obj]) (forgotten bool) {
	c.round.giveBack()
	e := c.entryOf(op)
	later, refresh, _ := c.finish(e)
	if e.endsWith(later) || later != nil && later.asks == RowDone && (e.from == Terminal || e.waitsIn(Terminal)) {
		c.queues.leaveGroup(e)
		c.forget(e)
		return true
	}
	switch {
	case later == nil:
	case later.asks != rowAsks:
		e.version.outdated = true
	default:
		c.queues.changeGroup(e, later.obj)
		if !c.follow(now, e, later) {
			c.queues.leaveGroup(e)
			return false
		}
	}
	c.queues.putBack(e)
	if refresh {
		c.runSoon(now, e, CauseRefresh)
	}
	return false
}

// Return is [Core.Recall] for an operation that has looked at the target, and found nothing to do. [Operation.Returns] is
// true for it: its key waits for what it waited for before, outside its group. If it was to be looked at again
// meanwhile, that is due.
func (c *Core[Obj]) Return(now time.Duration, op *Operation[Obj]) (forgotten bool) {
	e := op.entry
	again := e.verify
	e.goHome()
	if c.Recall(now, op) {
		return true
	}
	// Where it waits now, it would keep others of its group waiting.
	c.queues.leaveGroup(e)
	if again {
		c.queues.look(e, now)
	}
	return false
}
