// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"
)

// KeyInfo describes a key that has an entry.
type KeyInfo[Obj any] struct {
	// Obj, Revision and Deleted are the version that was observed last. Deletes reports whether the
	// operation of a key in flight is a deletion: it may run an older version.
	Obj      Obj
	Revision uint64
	Deleted  bool
	Deletes  bool
	State    State
	// From is the state that a paused or queued key returns to.
	From State
	Lane Lane
	// Failures and Failure are as in [Unreconciled]. Tries is as in [Item].
	Failures, Tries int
	Failure         string
	// Tried reports whether the change has been attempted, Attempted whether any change of the key
	// has. LastAttempt is when the last attempt ended.
	Tried, Attempted bool
	LastAttempt      time.Duration
	// Wanted is when the change was written; 0 means that the time must be read from the object.
	Wanted time.Duration
	// Due is when the key is due. It is valid if Timed, that is if the key waits for a time.
	Due   time.Duration
	Timed bool
	// Observed is when the change was observed. It is valid if the key is ready.
	Observed time.Duration
	// Group is the group that a queued key waits for, and Holder the object that holds it.
	Group  string
	Holder Obj
	// Ahead is the number of keys before the key in its lane or its group, up to the limit of the call.
	Ahead int
}

// KeyInfo describes a key; false if it has no entry. It counts up to limit of the keys ahead.
func (c *Core[Obj]) KeyInfo(key string, limit int) (KeyInfo[Obj], bool) {
	e := c.entries[key]
	if e == nil {
		return KeyInfo[Obj]{}, false
	}
	s := KeyInfo[Obj]{
		Obj: e.obj, Revision: e.revision, Deleted: e.deleted, State: e.state, From: e.from, Lane: e.lane,
		Failures: int(e.failures), Tries: int(e.tries), Tried: e.tried, Deletes: e.running().deleted,
		Attempted: e.tried || e.failures > 0 || e.lastAttempt > 0, LastAttempt: e.lastAttempt, Wanted: e.wanted,
		Failure: e.failure(), Due: e.dueAt, Timed: e.pos >= 0, Observed: e.dueAt,
	}
	switch e.state {
	case Ready:
		s.Ahead = ahead(e, limit)
	case Queued:
		s.Ahead = 1 + ahead(e, limit)
	}
	if e.state == Queued {
		s.Group, s.Holder = e.group.name, e.group.holder.obj
	}
	return s, true
}

// ahead counts the entries before an entry in its queue, up to limit.
func ahead[Obj any](e *entry[Obj], limit int) (n int) {
	for p := e.prev; p != nil && n < limit; p = p.prev {
		n++
	}
	return n
}

// Counts returns how many keys are in each state.
func (c *Core[Obj]) Counts() [NumStates]int { return c.counts }

// LaneSizes returns how many keys are ready in each lane.
func (c *Core[Obj]) LaneSizes() (sizes [NumLanes]int) {
	for lane := range c.lanes {
		sizes[lane] = c.lanes[lane].size
	}
	return sizes
}

// LaneSize returns how many keys are ready in a lane.
func (c *Core[Obj]) LaneSize(lane Lane) int { return c.lanes[lane].size }

// Oldest returns the object that has been unreconciled for longest, and when its change was
// written; 0 means that the time must be read from the object. It returns false if all objects are
// reconciled.
func (c *Core[Obj]) Oldest() (obj Obj, wanted time.Duration, ok bool) {
	o, _, ok := c.unreconciled.Min()
	if !ok {
		return obj, 0, false
	}
	v := o.entry.unreconciled()
	return v.obj, v.wanted, true
}

// RetryNow makes a key due at the given time if it waits for a time, waits to be released, or is
// Terminal. It reports whether it did. A key that is due earlier stays so.
func (c *Core[Obj]) RetryNow(key string, now time.Duration) bool {
	e := c.entries[key]
	return e != nil && c.retryNow(e, now)
}

// RetryAllNow calls RetryNow for all keys, and returns the number of keys that it made due. O(n log
// n) in the number of keys.
func (c *Core[Obj]) RetryAllNow(now time.Duration) (n int) {
	var entries []*entry[Obj]
	for _, e := range c.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *entry[Obj]) int { return cmp.Compare(a.key, b.key) })
	for _, e := range entries {
		if c.retryNow(e, now) {
			n++
		}
	}
	return n
}

// retryNow is RetryNow for an entry.
func (c *Core[Obj]) retryNow(e *entry[Obj], now time.Duration) bool {
	s := e.state
	switch s {
	case Held, Retry, Requeue, Blocked:
		if e.pos >= 0 {
			now = min(now, e.dueAt)
		}
	case Terminal:
		// It is retried like any other failure, and may fail as often before it is given up.
		e.tries, s = 0, Retry
	default:
		return false
	}
	c.take(e)
	e.cause = CauseCall
	c.wait(e, s, now)
	return true
}
