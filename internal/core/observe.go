// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Observe takes in a change: obj was written, or deleted. The changes of one cursor come in the
// order of revisions. since is the revision since which the change is not reconciled: mostly its
// own, or a lower one if an earlier version of the row asked for the same. A change that is no
// newer than the version of its entry lowers the revision since which that is not reconciled, and
// nothing else.
func (c *Core[Obj]) Observe(obj Obj, revision, since uint64, deleted bool, lane Lane) {
	c.observed = max(c.observed, revision)
	it := Item[Obj]{Obj: obj, Revision: revision, since: since, Deleted: deleted, lane: lane}
	switch e := c.find(obj); {
	case e != nil && !c.observeKnown(e, &it):
	case c.round.maxFresh > 0:
		// Both cursors may come to a key in one round.
		if e == nil {
			e = c.addEntry(&it)
		}
		c.pushReady(e)
	default:
		c.round.lanes[it.lane]++
		c.round.changes = append(c.round.changes, it)
	}
}

// ObserveSeenDeletion takes in that the main cursor came to a deletion that the catch-up cursor has
// handed over. It does nothing if the key is reconciled.
func (c *Core[Obj]) ObserveSeenDeletion(obj Obj, revision uint64) {
	if c.TracksKeyOf(obj) {
		c.Observe(obj, revision, revision, true, Deletion)
	}
}

// observeKnown takes in a change of a key that has an entry. It reports whether the change may be
// run in this round; otherwise it is old, or waits with the entry.
func (c *Core[Obj]) observeKnown(e *entry[Obj], it *Item[Obj]) bool {
	switch {
	case it.Revision <= e.revision:
		c.lowerSince(e, it.since)
		if it.Deleted && e.cause == CauseSweep {
			// A sweep found the object before the cursor came to its deletion, which has
			// not been attempted.
			e.tried = false
			c.clearUntried(e)
			if e.state != Paused {
				c.markUntried(e)
			}
		}
		return false
	case e.state == InFlight:
		c.keepLater(e, laterChange[Obj]{item: *it})
		return false
	case c.keepsPlace(e, it):
		c.changeGroup(e, it.Obj)
		if !c.takeChange(e, it) {
			return false
		}
		if e.state == Queued {
			e.lane = it.lane
		}
		c.endProbe(c.round.now, e, probeNotRun)
		c.markUnreconciled(e)
		c.markUntried(e)
		return false
	}
	c.leaveQueue(e)
	c.leaveGroup(e)
	c.endProbe(c.round.now, e, probeNotRun)
	if c.takeChange(e, it) {
		e.lane = it.lane
	}
	if earliest := after(e.lastAttempt, c.backoff.Min); e.failures > 0 && earliest > c.round.now {
		c.wait(e, Held, earliest)
		c.clearUntried(e)
		c.markUnreconciled(e)
		return false
	}
	c.move(e, Planned)
	it.entry, it.Mark, it.lane = e, e.mark, e.lane
	return true
}

// keepsPlace reports whether an entry keeps its place when it gets a change: otherwise a key that
// changes often would never be run.
func (c *Core[Obj]) keepsPlace(e *entry[Obj], it *Item[Obj]) bool {
	switch e.state {
	case Ready:
		return e.deleted == it.Deleted && e.lane == it.lane || c.sameAs(e, it)
	case Queued:
		return c.groupOf(it.Obj) == e.group.name
	case Held:
		return c.waitsFor(e, it)
	case Paused:
		return c.waitsFor(e, it) && c.paused != nil && c.paused(it.Obj)
	}
	return false
}

// waitsFor reports whether an entry waits for the attempt of a change, and the given one asks for
// the same.
func (c *Core[Obj]) waitsFor(e *entry[Obj], it *Item[Obj]) bool {
	return !e.tried && e.since > 0 && c.sameAs(e, it)
}

// changeGroup makes an entry leave its group if the given version of its object belongs to another.
func (c *Core[Obj]) changeGroup(e *entry[Obj], obj Obj) {
	if e.group != nil && c.groupOf(obj) != e.group.name {
		c.leaveGroup(e)
	}
}

// sameAs reports whether a change asks for the same as the change of an entry.
func (c *Core[Obj]) sameAs(e *entry[Obj], it *Item[Obj]) bool {
	return c.same(&Item[Obj]{Obj: e.obj, Deleted: e.deleted}, it)
}

// takeChange gives an entry a later change, and reports whether that is a new one: a version that
// asks for the same as a change which was not attempted is the same change.
func (c *Core[Obj]) takeChange(e *entry[Obj], it *Item[Obj]) bool {
	if c.waitsFor(e, it) {
		e.obj, e.revision, e.seen = it.Obj, it.Revision, c.rounds
		c.lowerSince(e, it.since)
		return false
	}
	c.replaceChange(e, it)
	return true
}

// replaceChange gives an entry a change in place of all earlier ones.
func (c *Core[Obj]) replaceChange(e *entry[Obj], it *Item[Obj]) {
	c.markReconciled(e)
	c.setDeleted(e, it.Deleted)
	e.obj, e.revision, e.since, e.from = it.Obj, it.Revision, it.since, Ready
	e.tries, e.tried, e.seen, e.dueAt, e.cause = 0, false, c.rounds, c.round.now, CauseChange
	e.resetWanted(c.round.now)
	c.setBlocked(e, false)
	if it.Deleted {
		// A deletion does not inherit the wait that its object had earned.
		e.failures, e.requeues = 0, 0
	}
}

// Renew gives an item a later version of its object from the table, which no cursor need have read.
// since is as for [Core.Observe]. It reports whether the item may still be run: the object may be
// paused now, or belong to a group of which another is worked on.
func (c *Core[Obj]) Renew(it *Item[Obj], obj Obj, revision, since uint64) bool {
	if revision <= it.Revision {
		return true
	}
	if it.entry == nil {
		// The cursor must not get this version back: it has come to another.
		it.entry = c.addEntry(it)
	}
	e := it.entry
	it.Obj, it.Revision, it.Deleted = obj, revision, false
	if it.lane == Deletion {
		it.lane = Backlog
	}
	it.since = since
	if c.takeChange(e, it) {
		it.cause = CauseChange
	}
	e.lane, e.from = it.lane, Ready
	c.markUnreconciled(e)
	c.markUntried(e)
	c.changeGroup(e, obj)
	if c.admit(e) {
		return true
	}
	c.endProbes(c.round.now, it, probeNotRun)
	return false
}

// RowStatus is the status of a row that asks for nothing.
type RowStatus uint8

const (
	// RowFailed: the last attempt failed or was blocked.
	RowFailed RowStatus = iota
	// RowDone: the object is reconciled.
	RowDone
	// RowUnset: the row has no status; its object is not reconciled at all.
	RowUnset
)

// ObserveSettled takes in a row that asks for nothing. It has to be called only while NeedsSettled,
// or, for a row without a status, while Tracks. A key whose change was unseen, and that is this
// row, goes back to its retry. It returns true if the key is forgotten: because its row has no
// status, because the object is back while its deletion waits, or because the key failed for good
// and its row is Done.
func (c *Core[Obj]) ObserveSettled(obj Obj, revision uint64, s RowStatus) (forgotten bool) {
	c.observed = max(c.observed, revision)
	e := c.find(obj)
	switch {
	case e == nil || revision <= e.revision:
	case e.state == InFlight:
		c.keepLater(e, laterChange[Obj]{item: Item[Obj]{Obj: obj, Revision: revision}, settled: true, unset: s == RowUnset})
	case s == RowUnset, e.deleted, s == RowDone && e.state == Terminal:
		c.leaveQueue(e)
		c.leaveGroup(e)
		c.endProbe(c.round.now, e, probeNotRun)
		c.setFailure(e, nil)
		c.forget(e)
		return true
	case e.state == Unseen:
		c.returnToRetry(e, obj, revision, 0)
	}
	return false
}

// returnToRetry makes an entry whose change was unseen wait for its retry again: its row asks for
// nothing. jitter is that of [Outcome].
func (c *Core[Obj]) returnToRetry(e *entry[Obj], obj Obj, revision uint64, jitter float64) {
	e.obj, e.revision, e.fixed = obj, revision, false
	c.wait(e, Retry, after(e.lastAttempt, c.delay(int(e.failures), jitter)))
}
