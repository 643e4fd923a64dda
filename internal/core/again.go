// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Again asks for another run of an object whose row has not changed, where the rows carry no status
// that could ask for it. A reconciled object stays reconciled, and is run in the lane Refresh; if it
// waits to be run again, that is due. A key that is not reconciled, or is worked on, is left alone,
// unless the run is forced: then one that waits for a time or for a channel is due as soon as its minimum backoff has passed, and the outcome of a running
// operation does not count, because the operation may have begun before the reason for the call.
//
// Again reports whether the object will be run because of it. The caller has found the row in the
// table, in a transaction that it began after the last observed one.
func (c *Core[Obj]) Again(now time.Duration, obj Obj, revision uint64, forced bool) bool {
	switch e := c.find(obj); {
	case e == nil:
		e = c.addEntry(&Item[Obj]{Obj: obj, Revision: revision, lane: Refresh})
		e.dueAt, e.tried, e.seen, e.cause, e.repeat = now, true, c.rounds-1, CauseRefresh, true
		c.pushReady(e)
		return true
	case e.state == Requeue:
		// It is reconciled, and its next run may be far away.
		return c.hurry(now, e)
	case !forced:
		return false
	case e.state == InFlight:
		if _, noted := c.later[e]; !noted {
			c.later[e] = laterChange[Obj]{again: true}
		}
		return true
	default:
		return c.hurry(now, e)
	}
}

// hurry makes an entry due that waits for a time or for a channel, but not before its minimum backoff
// has passed.
func (c *Core[Obj]) hurry(now time.Duration, e *entry[Obj]) bool {
	at := now
	if e.failures > 0 {
		at = max(now, after(e.lastAttempt, c.backoff.Min))
	}
	if !c.retryNow(e, at) {
		return false
	}
	if e.cause == CauseCall {
		e.cause = CauseRefresh
	}
	return true
}

// runAgain is called for an entry whose operation has ended, and whose outcome does not count.
func (c *Core[Obj]) runAgain(now time.Duration, e *entry[Obj], out Outcome[Obj]) {
	if out.Kind != Done && out.Kind != DoneAgain {
		c.enqueue(e, out)
		c.hurry(now, e)
		return
	}
	e.lane, e.from, e.seen, e.cause, e.dueAt = Refresh, Ready, c.rounds-1, CauseRefresh, now
	e.repeat = e.since == 0
	if !e.repeat {
		// It was attempted, and still is not reconciled.
		c.markUnreconciled(e)
		c.touch(e)
	}
	c.pushReady(e)
}
