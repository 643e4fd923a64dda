// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Observe records a change that is to wait for its turn in its lane. A change that is not newer than the
// version in its entry only lowers the revision since which that is unreconciled. If it is the deletion of an
// orphan, the entry also counts as not attempted from then on.
func (c *Core[Obj]) Observe(change Change[Obj]) {
	c.observed = max(c.observed, change.Revision)
	e := c.find(change.Obj)
	if e == nil {
		e = c.addEntry(c.versionOf(&change))
	} else if !c.observeKnown(e, &change) {
		return
	}
	c.put(e, Ready)
}

// observeKnown records a change of a key that has an entry. It reports whether the change may be run now: then
// the entry is in no queue. Otherwise the change is old, or waits in the entry.
func (c *Core[Obj]) observeKnown(e *entry[Obj], change *Change[Obj]) bool {
	v := c.versionOf(change)
	switch {
	case change.Revision <= e.revision:
		c.observeOlder(e, change)
		return false
	case e.state == InFlight:
		c.overtake(e, v)
		return false
	case c.keepsPlace(e, &v):
		c.changeGroup(e, v.obj)
		if e.state == Ready {
			v.lane = e.lane
		}
		c.takeChange(e, v)
		c.reindex(e)
		return false
	}
	c.take(e)
	c.leaveGroup(e)
	c.takeChange(e, v)
	if c.hold(e, c.round.now) {
		return false
	}
	e.from = Ready
	c.reindex(e)
	return true
}

// observeOlder records a change that is not newer than the version of its entry: what is unreconciled
// is so since the older change.
func (c *Core[Obj]) observeOlder(e *entry[Obj], change *Change[Obj]) {
	runs := e.running()
	newer := change.Revision > runs.revision
	if newer {
		// It was observed while the operation runs, like the newest version.
		e.lowerSince(change.Since)
	}
	if !newer || e.asks == asksChange {
		runs.lowerSince(change.Since)
	}
	if !newer && change.Deleted && e.cause == CauseSweep {
		// A sweep added the object as an orphan before the cursor read its deletion, and the
		// deletion has not been attempted.
		runs.tried = false
	}
	c.reindex(e)
}

// keepsPlace reports whether an entry keeps its place in its queue when it gets a change. Otherwise
// a key that changes often would never be run.
func (c *Core[Obj]) keepsPlace(e *entry[Obj], v *rowVersion[Obj]) bool {
	switch e.state {
	case Ready:
		return (e.deleted == v.deleted && e.lane == v.lane || c.same(&e.rowVersion, v)) && !v.paused
	case Queued:
		return c.groupOf(v.obj) == e.group.name && !v.paused
	case Held:
		return c.waitsFor(e, v)
	case Paused:
		return c.waitsFor(e, v) && v.paused
	}
	return false
}

// waitsFor reports whether the change of an entry has not been attempted and the given version asks
// for the same.
func (c *Core[Obj]) waitsFor(e *entry[Obj], v *rowVersion[Obj]) bool {
	return !e.tried && e.since > 0 && c.same(&e.rowVersion, v)
}

// changeGroup makes an entry leave its group if the given version of its object belongs to another.
func (c *Core[Obj]) changeGroup(e *entry[Obj], obj Obj) {
	if e.group != nil && c.groupOf(obj) != e.group.name {
		c.leaveGroup(e)
	}
}

// takeChange stores a later version in an entry, and reports whether it is a new change. A version that
// asks for the same as a change that has not been attempted is not new.
func (c *Core[Obj]) takeChange(e *entry[Obj], v rowVersion[Obj]) bool {
	if c.waitsFor(e, &v) {
		e.obj, e.revision, e.seen, e.paused = v.obj, v.revision, v.seen, v.paused
		e.lowerSince(v.since)
		return false
	}
	c.replaceChange(e, v)
	return true
}

// replaceChange stores a change in an entry in place of the earlier one.
func (c *Core[Obj]) replaceChange(e *entry[Obj], v rowVersion[Obj]) {
	e.rowVersion = v
	e.from, e.tries, e.dueAt, e.cause = Ready, 0, c.round.now, CauseChange
	e.unblock()
	if v.deleted {
		// A deletion does not inherit the backoff of its object.
		e.failures, e.requeues = 0, 0
	}
}

// unblock makes an entry no longer count as blocked: its last attempt says nothing about a new change.
func (e *entry[Obj]) unblock() {
	if e.result == wasBlocked {
		e.result = wentWell
	}
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
	e := c.entryOf(op)
	if c.takeChange(e, c.versionOf(&change)) && op.probe == 0 {
		op.Cause = change.Lane.why()
	}
	op.Obj, op.Revision, op.Deleted, op.since = obj, revision, false, since
	e.lane, e.from = change.Lane, Ready
	op.setEntry(e)
	c.take(e)
	c.changeGroup(e, obj)
	if e.paused {
		c.pause(e)
	} else if c.takeGroup(e) {
		c.put(e, InFlight)
		return true
	}
	c.endProbe(c.round.now, op, probeNotRun)
	c.giveBackTurn()
	return false
}

// RowStatus is the status of a row that asks for no operation.
type RowStatus uint8

const (
	// RowFailed: the last attempt failed or was blocked.
	RowFailed RowStatus = iota
	// RowDone: the object is reconciled.
	RowDone
	// RowUnset: the row has no status, so its object is not reconciled by this reconciler.
	RowUnset
)

// ObserveSettled records a row that asks for no operation. The caller need not call it unless
// NeedsSettled returns true or, for a row without a status, Tracks does. A key in state Unseen goes
// back to its retry: this row is the change that it waited for. ObserveSettled returns true if it
// removed the key's entry: because the row has no status, because the object is back while its
// deletion waits, or because the key is Terminal and its row is Done.
func (c *Core[Obj]) ObserveSettled(obj Obj, revision uint64, s RowStatus) (forgotten bool) {
	c.observed = max(c.observed, revision)
	e := c.find(obj)
	switch {
	case e == nil || revision <= e.revision:
	case e.state == InFlight:
		v := rowVersion[Obj]{obj: obj, revision: revision, tried: e.running().tried, paused: c.isPaused(obj), asks: asksNothing}
		if s == RowUnset {
			v.asks = asksNothingUnset
		}
		c.overtake(e, v)
	case s == RowUnset, e.deleted, s == RowDone && e.state == Terminal:
		c.take(e)
		c.leaveGroup(e)
		c.forget(e)
		return true
	case e.state == Unseen:
		c.returnToRetry(e, obj, revision, 0)
	}
	return false
}

// returnToRetry makes an entry wait for its retry again, after the change that it waited for turned
// out to ask for no operation. jitter is Outcome.Jitter.
func (c *Core[Obj]) returnToRetry(e *entry[Obj], obj Obj, revision uint64, jitter float64) {
	e.obj, e.revision, e.paused, e.fixed = obj, revision, c.isPaused(obj), false
	c.wait(e, Retry, after(e.lastAttempt, c.delay(int(e.failures), jitter)))
}
