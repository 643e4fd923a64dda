// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"
	"time"
)

// Settle records the outcome of an operation, which ended at the time now. Settle counts the
// attempt, unless the operation was not run, and puts the key into the state that the outcome asks
// for. If the key changed while its operation ran, that change decides what comes next.
func (c *Core[Obj]) Settle(now time.Duration, it *Operation[Obj], out Outcome[Obj]) {
	e := it.entry
	c.endProbe(now, it, probeResultOf(out))
	if e == nil {
		if !needsEntry(out) {
			if !out.ran() {
				c.giveBackTurn()
			}
			c.updateBreaker(now, nil, out)
			return
		}
		e = c.entryOf(it)
	}
	it.Void = e.running().void
	newer := c.finish(e)
	if !out.ran() {
		c.giveBackTurn()
	}
	switch {
	case out.Kind == Superseded:
		e.unblock()
		c.put(e, Unseen)
	case out.Kind == Void:
		c.forget(e)
	default:
		c.countAttempt(now, e, out)
		switch {
		case newer != nil && (newer.asks == asksNothingUnset || newer.asks == asksNothing && e.deleted):
			c.forget(e)
		case newer != nil && newer.asks == asksNothing && out.Lost && out.Kind != Done && out.Kind != DoneAgain:
			c.unreconcile(e)
			c.returnToRetry(e, newer.obj, newer.revision, out.Jitter)
		case newer != nil && newer.asks == asksAgain:
			c.runAgain(now, e, out)
		case newer != nil && newer.asks == asksChange && (out.Lost || newer.revision > out.NewRevision):
			c.follow(now, e, newer)
		default:
			c.enqueue(e, out)
		}
	}
	c.leaveGroup(e)
}

// needsEntry reports whether a key without an entry needs one after an outcome.
func needsEntry[Obj any](out Outcome[Obj]) bool {
	switch out.Kind {
	case Done, Void, Superseded:
		return false
	case Failed, FailedForGood:
		return true
	}
	return !out.Lost
}

// finish takes an entry out of state InFlight, and returns the newer version that was read meanwhile; nil
// if there is none. The entry has the version that ran then: the outcome decides which of them counts.
func (c *Core[Obj]) finish(e *entry[Obj]) (newer *rowVersion[Obj]) {
	if e.state != InFlight {
		return nil
	}
	c.take(e)
	if newer = e.runs; newer != nil {
		e.rowVersion, *newer, e.runs = *newer, e.rowVersion, nil
		e.void = false
	}
	return newer
}

// countAttempt counts an attempt for the backoff and for the breaker.
func (c *Core[Obj]) countAttempt(now time.Duration, e *entry[Obj], out Outcome[Obj]) {
	e.lastAttempt, e.mark, e.tried, e.cause = now, out.Mark, true, CauseChange
	if e.wanted == 0 {
		e.wanted = out.Wanted
	}
	e.result, e.text = wentWell, out.Text
	if !out.backsOff() {
		e.requeues = 0
	} else if e.requeues < math.MaxUint8 {
		e.requeues++
	}
	switch out.Kind {
	case Failed, FailedForGood:
		e.failures++
		e.tries++
		e.result = hasFailed
	case Done, DoneAgain, Deleting:
		e.failures, e.tries = 0, 0
	}
	if (out.Kind == BlockedOn || out.Kind == Deleting) && !out.Lost {
		e.result = wasBlocked
	}
	c.updateBreaker(now, e, out)
}

// follow makes a key go on with the change that was read while its operation ran.
func (c *Core[Obj]) follow(now time.Duration, e *entry[Obj], newer *rowVersion[Obj]) {
	c.replaceChange(e, *newer)
	// It was not observed in this round: the object is looked up again before it is run.
	e.seen = c.rounds - 1
	if !c.hold(e, now) {
		c.put(e, Ready)
	}
}

// enqueue puts an entry into the state that its outcome asks for.
func (c *Core[Obj]) enqueue(e *entry[Obj], out Outcome[Obj]) {
	now := e.lastAttempt
	if out.Kind == Done || out.Lost && out.Kind == DoneAgain {
		c.forget(e)
		return
	}
	if out.Kind == DoneAgain {
		e.since, e.wanted = 0, 0
	} else {
		c.unreconcile(e)
	}
	if out.Lost {
		c.put(e, Unseen)
		return
	}
	e.obj, e.revision, e.paused = out.Object, out.NewRevision, c.isPaused(out.Object)
	e.fixed = out.Kind == Failed && out.Delay > 0
	switch {
	case e.fixed:
		c.wait(e, Retry, after(now, out.Delay))
	case out.Kind == Failed:
		c.wait(e, Retry, after(now, c.delay(int(e.failures), out.Jitter)))
	case out.Kind == FailedForGood:
		c.put(e, Terminal)
	case out.backsOff():
		c.wait(e, out.waitState(), after(now, c.delay(int(e.requeues), out.Jitter)))
	case out.Kind == DoneAgain, out.Kind == Deleting:
		c.wait(e, out.waitState(), after(now, out.Delay))
	case out.Delay > 0:
		c.wait(e, Blocked, after(now, out.Delay))
	default:
		c.wait(e, Blocked, noTime)
	}
}

// delay returns the backoff after a number of failures in a row. jitter is Outcome.Jitter.
func (c *Core[Obj]) delay(failures int, jitter float64) time.Duration {
	b := c.backoff
	b.Fraction = jitter
	return b.Delay(failures)
}

// Recall takes back an operation that was not run, of this round or of an earlier one. A change goes to the front
// of its lane, any other key back to where it waited, and keeps its group. If the object was changed meanwhile,
// the change counts. Recall several operations in reverse order.
func (c *Core[Obj]) Recall(now time.Duration, op *Operation[Obj]) {
	c.endProbe(now, op, probeNotRun)
	c.giveBackTurn()
	e := c.entryOf(op)
	newer := c.finish(e)
	if newer != nil && newer.asks == asksChange {
		if !c.waitsFor(e, newer) {
			c.follow(now, e, newer)
			c.leaveGroup(e)
			return
		}
		c.changeGroup(e, newer.obj)
		c.takeChange(e, *newer)
		e.seen = c.rounds - 1
	}
	c.putBack(e)
}

// Release makes a blocked key due at the given time, unless it is due earlier. It reports whether
// the key was blocked.
func (c *Core[Obj]) Release(key string, now time.Duration) bool {
	e := c.entries[key]
	if e == nil || e.state != Blocked {
		return false
	}
	if e.pos >= 0 {
		now = min(now, e.dueAt)
	}
	c.take(e)
	e.cause = CauseReleased
	c.wait(e, Blocked, now)
	return true
}

// AddOrphan adds the deletion of an orphan: an object that the target has and the table does not.
// It does nothing and returns false if the key has an entry.
func (c *Core[Obj]) AddOrphan(obj Obj, revision uint64) bool {
	if c.find(obj) != nil {
		return false
	}
	e := c.addEntry(c.versionOf(&Change[Obj]{Obj: obj, Revision: revision, Since: revision, Deleted: true, Lane: Resumption}))
	e.since, e.tried, e.seen, e.cause = c.observed+1, true, c.rounds-1, CauseSweep
	c.put(e, Ready)
	return true
}
