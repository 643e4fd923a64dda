// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Again asks for another run of an object whose row has not changed, where the rows carry no status
// that could ask for it. A reconciled object stays reconciled, and is run in the lane Refresh; if it
// waits to be run again, that is due. A key that is not reconciled, or is worked on, is left alone,
// unless the run is forced: then one that waits for a time or for a channel is due as soon as its
// minimum backoff has passed, and the outcome of a running operation does not count, because the
// operation may have begun before the reason for the call.
//
// Again reports whether an operation on the object is running. The caller has found the row in the
// table, in a transaction that it began after the last observed one.
func (c *Core[Obj]) Again(now time.Duration, obj Obj, revision uint64, forced bool) (running bool) {
	key := c.keyOf(obj)
	e := c.entries[string(key)]
	switch {
	case e == nil:
		e = c.addEntryOf(string(key), rowVersion[Obj]{obj: obj, revision: revision, lane: Refresh, tried: true, paused: c.isPaused(obj), seen: c.rounds - 1})
		e.dueAt, e.cause = now, CauseRefresh
		c.put(e, Ready)
	case e.state == InFlight:
		if forced && e.runs == nil {
			again := e.rowVersion
			again.asks = asksAgain
			c.overtake(e, again)
			e.runs.void = true
		}
		return true
	case forced || e.state == Requeue:
		// A key in state Requeue is reconciled, and its next run may be far away.
		c.hurry(now, e)
	}
	return false
}

// hurry makes an entry due that waits for a time or for a channel, but not before its minimum backoff
// has passed.
func (c *Core[Obj]) hurry(now time.Duration, e *entry[Obj]) {
	at := now
	if e.failures > 0 {
		at = max(now, after(e.lastAttempt, c.backoff.Min))
	}
	if c.retryNow(e, at) && e.cause == CauseCall {
		e.cause = CauseRefresh
	}
}

// runAgain is called for an entry whose operation has ended, and whose outcome does not count.
func (c *Core[Obj]) runAgain(now time.Duration, e *entry[Obj], out Outcome[Obj]) {
	if out.Kind != Done && out.Kind != DoneAgain {
		c.enqueue(e, out)
		c.hurry(now, e)
		return
	}
	e.lane, e.from, e.seen, e.cause, e.dueAt = Refresh, Ready, c.rounds-1, CauseRefresh, now
	c.put(e, Ready)
}
