// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Observe records a change that is to wait for its turn in its lane. A change that is not newer than the
// version in its entry only lowers the revision since which that is unreconciled. If it is the deletion of an
// orphan, the entry also counts as not attempted from then on.
func (c *Core[Obj]) Observe(change Change[Obj]) {
	if e := c.observe(c.keys.find(change.Obj), &change); e != nil {
		c.queues.put(e, Ready)
	}
}

// observe records a change. e is the entry of its key; nil if there is none. It returns the entry if the change may
// be run now: then the entry is in no queue. It returns nil if the change is old, or waits in the entry.
func (c *Core[Obj]) observe(e *entry[Obj], change *Change[Obj]) *entry[Obj] {
	c.observed = max(c.observed, change.Revision)
	v := c.versionOf(change)
	switch {
	case e == nil:
		return c.keys.add(string(c.keys.of(v.obj)), &v, c.round.now, CauseChange)
	case change.Revision <= e.newest().revision:
		e.observeOlder(change)
		c.Index.reindex(e)
	case e.state == InFlight:
		e.overtake(v, c.same)
		c.Index.reindex(e)
	case c.queues.keepsPlace(e, &v, c.same.asAttemptOf(e, &v)):
		c.queues.changeGroup(e, v.obj)
		if e.state == Ready {
			v.lane = e.version.lane
		}
		e.take(&v, c.same, c.round.now)
		c.Index.reindex(e)
	default:
		c.queues.take(e)
		c.queues.leaveGroup(e)
		if c.accept(c.round.now, e, &v) {
			return e
		}
	}
	return nil
}

// versionOf returns the version of a change that is observed in this round.
func (c *Core[Obj]) versionOf(change *Change[Obj]) rowVersion[Obj] {
	v := rowVersion[Obj]{
		obj: change.Obj, revision: change.Revision, since: change.Since, seen: c.round.number, lane: change.Lane,
		deleted: change.Deleted, outdated: change.Outdated, paused: c.paused.has(change.Obj),
	}
	if v.deleted {
		v.wanted = max(1, c.round.now)
	}
	return v
}

// accept stores a later version in an entry that is in no queue. If the key has just failed, it is held, and accept
// returns false.
func (c *Core[Obj]) accept(now time.Duration, e *entry[Obj], v *rowVersion[Obj]) bool {
	e.take(v, c.same, c.round.now)
	if earliest := after(e.past.ended, c.backoff.Min); e.past.failures > 0 && earliest > now {
		c.queues.wait(e, Held, earliest)
		return false
	}
	e.from = Ready
	return true
}

// follow is accept for a version that was read while an operation on the key ran.
func (c *Core[Obj]) follow(now time.Duration, e *entry[Obj], later *rowVersion[Obj]) bool {
	// It was not observed in this round: the object is looked up again before it is run.
	later.seen = c.round.number - 1
	return c.accept(now, e, later)
}

// RowStatus is the status of a row that asks for no operation.
type RowStatus uint8

const (
	// rowAsks: the row asks for an operation.
	rowAsks RowStatus = iota
	// RowFailed: the last attempt failed or was blocked.
	RowFailed
	// RowDone: the object is reconciled.
	RowDone
	// RowUnset: the row has no status, so its object is not reconciled by this reconciler.
	RowUnset
)

// ObserveSettled records a row that asks for no operation: an entry of its key is outdated. A key in state Unseen goes
// back to its retry: this row is the change that it waited for. ObserveSettled returns true if it
// removed the key's entry: because the row has no status, because the object is back while its
// deletion waits, or because the key is Terminal and its row is Done.
func (c *Core[Obj]) ObserveSettled(obj Obj, revision uint64, s RowStatus) (forgotten bool) {
	c.observed = max(c.observed, revision)
	e := c.keys.find(obj)
	switch {
	case e == nil || revision <= e.newest().revision:
	case e.state == InFlight:
		e.overtake(rowVersion[Obj]{
			obj: obj, revision: revision, tried: e.version.tried, paused: c.paused.has(obj), asks: s,
		}, c.same)
		c.Index.reindex(e)
	case s == RowUnset, e.version.deleted, s == RowDone && e.waitsIn(Terminal):
		c.queues.take(e)
		c.queues.leaveGroup(e)
		c.forget(e)
		return true
	case e.state == Unseen:
		c.returnToRetry(e, obj, revision, 0)
	default:
		e.version.outdated = true
	}
	return false
}

// AddOrphan adds the deletion of an orphan: an object that the target has and the table does not.
// It does nothing and returns false if the key has an entry.
func (c *Core[Obj]) AddOrphan(obj Obj, revision uint64) bool {
	if c.keys.find(obj) != nil {
		return false
	}
	v := c.versionOf(&Change[Obj]{Obj: obj, Revision: revision, Since: c.observed + 1, Deleted: true, Outdated: true, Lane: Resumption})
	v.tried, v.seen = true, c.round.number-1
	c.queues.put(c.keys.add(string(c.keys.of(obj)), &v, c.round.now, CauseOrphan), Ready)
	return true
}

// Refresh has an object applied again whose row has not changed. A reconciled object stays reconciled, and is run in the
// lane Refresh; if it waits to be run again, that is due. A key that is not reconciled is left alone, unless the refresh
// is forced: then one that waits for a time or for a channel is due as soon as its minimum backoff has passed. why is the
// cause of the operation.
//
// With CauseVerify the target is looked at, and the operation is called only if that is not right. A key that failed is
// or is blocked is looked at as well, but not called: either the target is right, and the key is settled, or it waits as
// before. So does one that waits for a requeue, if the target is right. If an operation on the object is running, it counts,
// and the object is looked at when it has ended.
//
// Refresh reports whether an operation on the object is running. The success of that does not count if the refresh is
// forced, because the operation may have begun before the reason for the call, or if the object is reconciled and that is
// no refresh. The caller has found the row in the table, in a transaction that it began after the last observed one.
func (c *Core[Obj]) Refresh(now time.Duration, obj Obj, revision uint64, why Cause, forced bool) (running bool) {
	key := c.keys.of(obj)
	e := c.keys.entries[string(key)]
	if e == nil {
		v := rowVersion[Obj]{
			obj: obj, revision: revision, lane: Refresh, tried: true, paused: c.paused.has(obj), seen: c.round.number - 1,
		}
		c.queues.put(c.keys.add(string(key), &v, now, why), Ready)
		return false
	}
	v, reconciled := &e.version, e.version.since == 0
	if e.state == InFlight {
		// Of a deletion in flight the row is a later change.
		looks := e.cause == CauseVerify
		e.verify = e.verify || !v.deleted && why == CauseVerify
		e.refresh = e.refresh || !v.deleted && why != CauseVerify && (forced || reconciled && (v.lane != Refresh || looks))
		return true
	}
	if why == CauseVerify {
		if !v.deleted {
			c.queues.look(e, now)
		}
		return false
	}
	switch {
	case !reconciled || e.state == Ready || v.lane == Refresh:
	case e.state == Queued:
		c.queues.take(e)
		v.lane = Refresh
		c.queues.put(e, Queued)
	default:
		v.lane = Refresh
	}
	if reconciled || forced {
		c.runSoon(now, e, why)
	}
	return false
}

// runSoon makes an entry due that waits for a time or for a channel, but not before its minimum backoff
// has passed. Whatever it waits for, no look takes the place of a refresh.
func (c *Core[Obj]) runSoon(now time.Duration, e *entry[Obj], why Cause) {
	e.past.applies = e.past.applies || why == CauseRefresh
	if e.cause == CauseVerify {
		e.cause = why
	}
	if e.past.failures > 0 {
		now = max(now, after(e.past.ended, c.backoff.Min))
	}
	c.queues.hurry(e, now, why)
}
