// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Settle records the outcome of an operation, which ended at the time now. Settle counts the
// attempt, unless the operation was not run, and puts the key into the state that the outcome asks
// for. If the key changed while its operation ran, that change decides what comes next.
func (c *Core[Obj]) Settle(now time.Duration, op *Operation[Obj], outcome Outcome[Obj]) {
	out := &outcome
	if !out.ran() {
		c.round.giveBack()
	}
	if op.entry == nil && !needsEntry(out) {
		return
	}
	e := c.entryOf(op)
	later, refresh, verify := c.finish(e)
	e.home = nil
	op.Effect.Discounted = refresh
	switch out.Kind {
	case Superseded:
		e.past.unblock()
		if e.cause == CauseVerify {
			e.cause = CauseChange
		}
		c.queues.put(e, Unseen)
	case Void:
		c.forget(e)
	default:
		e.count(now, op, out)
		c.goOn(now, e, later, refresh, out)
	}
	c.queues.leaveGroup(e)
	if verify && out.ran() && !out.Lost {
		c.Refresh(now, out.Object, out.NewRevision, CauseVerify, false)
		// The row may have been written since, without asking for an operation.
		c.keys.find(out.Object).version.outdated = true
	}
}

// needsEntry reports whether a key without an entry needs one after an outcome.
func needsEntry[Obj any](out *Outcome[Obj]) bool {
	return out.HasFailed() || out.ran() && out.Kind != Done && !out.Lost
}

// entryOf returns the entry of the key of an operation, and adds it if there is none.
func (c *Core[Obj]) entryOf(op *Operation[Obj]) *entry[Obj] {
	if op.entry == nil {
		v := c.versionOf(&Change[Obj]{
			Obj: op.Obj, Revision: op.Revision, Since: op.since, Deleted: op.Deleted, Lane: op.lane,
		})
		op.entry = c.keys.add(string(c.keys.of(op.Obj)), &v, c.round.now, CauseChange)
	}
	return op.entry
}

// finish takes an entry out of state InFlight. It returns the newer version that was read meanwhile, nil if there is
// none, whether the key is refreshed because the success of the operation does not count, and whether the object is to be
// looked at.
func (c *Core[Obj]) finish(e *entry[Obj]) (later *rowVersion[Obj], refresh, verify bool) {
	c.queues.take(e)
	later, refresh, verify = e.later, e.refresh, e.verify
	e.later, e.refresh, e.verify = nil, false, false
	return later, refresh, verify
}

// goOn decides what comes after an operation that ran: the newer version that was read meanwhile, the refresh that was
// asked for meanwhile, or what the outcome asks for.
func (c *Core[Obj]) goOn(now time.Duration, e *entry[Obj], later *rowVersion[Obj], refresh bool, out *Outcome[Obj]) {
	if later != nil && !out.Lost && later.revision <= out.NewRevision {
		// The outcome was written onto this version, or onto one that is later still.
		later = nil
	}
	e.version.outdated = later != nil
	switch settled := later != nil && later.asks != rowAsks; {
	case e.endsWith(later):
		c.forget(e)
	case settled && out.Lost && !out.Succeeded():
		c.Index.unreconcile(e, c.observed)
		c.returnToRetry(e, later.obj, later.revision, out.Jitter)
		if refresh {
			c.runSoon(now, e, CauseRefresh)
		}
	case later != nil && !settled:
		if c.follow(now, e, later) {
			c.queues.put(e, Ready)
		}
	case refresh:
		c.refreshAfter(now, e, out)
	default:
		c.enqueue(now, e, out)
	}
}

// refreshAfter refreshes an entry whose operation has ended, and did not count if it succeeded.
func (c *Core[Obj]) refreshAfter(now time.Duration, e *entry[Obj], out *Outcome[Obj]) {
	if !out.Succeeded() {
		c.enqueue(now, e, out)
		c.runSoon(now, e, CauseRefresh)
		return
	}
	v := &e.version
	v.lane, v.seen, v.outdated, e.from, e.cause, e.dueAt = Refresh, c.round.number-1, true, Ready, CauseRefresh, now
	c.queues.put(e, Ready)
}

// enqueue puts an entry into the state that its outcome asks for.
func (c *Core[Obj]) enqueue(now time.Duration, e *entry[Obj], out *Outcome[Obj]) {
	if out.Kind == Done || out.Lost && out.Kind == DoneAgain {
		c.forget(e)
		return
	}
	v := &e.version
	if out.Kind == DoneAgain {
		// The next run is no refresh, even if this one was.
		v.since, v.wanted, v.lane = 0, 0, Backlog
	} else {
		c.Index.unreconcile(e, c.observed)
	}
	if out.Lost {
		c.queues.put(e, Unseen)
		return
	}
	v.obj, v.revision, v.paused = out.Object, out.NewRevision, c.paused.has(out.Object)
	e.past.fixed = out.Kind == Failed && out.Delay > 0
	switch {
	case out.Kind == Failed && !e.past.fixed:
		c.backOff(e, Retry, int(e.past.failures), out.Jitter)
	case out.backsOff():
		c.backOff(e, out.waitState(), int(e.past.requeues), out.Jitter)
	case out.Kind == BlockedOn && out.Delay <= 0:
		c.queues.wait(e, Blocked, noTime)
	default:
		c.queues.wait(e, out.waitState(), after(now, out.Delay))
	}
}

// backOff puts an entry into a state that ends after a number of failures, or of requeues, in a row. jitter is
// Outcome.Jitter.
func (c *Core[Obj]) backOff(e *entry[Obj], s State, failures int, jitter float64) {
	b := c.backoff
	b.Fraction = jitter
	c.queues.wait(e, s, after(max(0, e.past.ended), b.Delay(failures)))
}

// returnToRetry makes an entry that is in no queue or heap wait for its retry again, after the change that it waited
// for turned out to ask for no operation. jitter is Outcome.Jitter.
func (c *Core[Obj]) returnToRetry(e *entry[Obj], obj Obj, revision uint64, jitter float64) {
	v := &e.version
	// Whether a change that was not attempted is still asked for, the row says.
	v.obj, v.revision, v.paused, v.outdated = obj, revision, c.paused.has(obj), !v.tried
	e.past.fixed = false
	c.backOff(e, Retry, int(e.past.failures), jitter)
}

// endsWith reports whether a version that was read while an operation ran is the end of the entry: the row has lost
// its status, or the object of a deletion is back and asks for nothing.
func (e *entry[Obj]) endsWith(later *rowVersion[Obj]) bool {
	return later != nil && later.asks != rowAsks && (later.asks == RowUnset || e.version.deleted)
}

// forget removes an entry: its key is reconciled, or need not be tracked any more.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.queues.take(e)
	e.version.since, e.past.result = 0, wentWell
	c.Index.reindex(e)
	c.keys.remove(e)
}
