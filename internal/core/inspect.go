// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"iter"
	"time"
)

// KeyInfo describes a key that has an entry.
type KeyInfo[Obj any] struct {
	// Obj, Revision and Deleted are the version that was observed last. Deletes reports whether the
	// operation of a key in flight is a deletion: it may run an older version. Since is the revision since
	// which the key is not reconciled; 0 if it is.
	Obj             Obj
	Since, Revision uint64
	Deleted         bool
	Deletes         bool
	State           State
	Queue           QueueInfo[Obj]
	// Tried reports whether that version has been attempted. Paused reports whether its object is paused,
	// unless its operation runs.
	Tried, Paused bool
	// Failures counts the failures in a row. Failure is the error text of the last attempt; empty
	// if it did not fail. Reason is why it was blocked; empty if it was not. LastAttempt is when it ended; negative if
	// there was none.
	Failures    int
	Failure     string
	Reason      string
	LastAttempt time.Duration
	// Wanted is when the change was written; 0 means that the time must be read from the object.
	Wanted time.Duration
	// At is when the key is due if Timed, that is if the key waits for a time. If the key is ready, it is when the
	// change was observed.
	At    time.Duration
	Timed bool
}

// QueueInfo describes the queue that a key waits in.
type QueueInfo[Obj any] struct {
	Lane Lane
	// Group is the group that a queued key waits for, and Holder the object that holds it.
	Group  string
	Holder Obj
	// Ahead is the number of keys before the key, if the call counts them.
	Ahead int
}

// KeyInfo describes a key; false if it has no entry. It counts up to limit of the keys ahead.
func (c *Core[Obj]) KeyInfo(key string, limit int) (KeyInfo[Obj], bool) {
	e := c.keys.entries[key]
	if e == nil {
		return KeyInfo[Obj]{}, false
	}
	s := c.describe(e)
	if e.state == Ready || e.state == Queued {
		for p := e.prev; p != nil && s.Queue.Ahead < limit; p = p.prev {
			s.Queue.Ahead++
		}
	}
	if e.state == Queued {
		s.Queue.Ahead++
	}
	return s, true
}

// UnreconciledOf describes a key; false if it is reconciled, as far as changes were observed.
func (c *Core[Obj]) UnreconciledOf(key string) (KeyInfo[Obj], bool) {
	e := c.keys.entries[key]
	if e == nil || e.unreconciled().since == 0 {
		return KeyInfo[Obj]{}, false
	}
	return c.describe(e), true
}

// describe is entry.describe, also for an entry that no walk has visited since the pause was set.
func (c *Core[Obj]) describe(e *entry[Obj]) KeyInfo[Obj] {
	s := e.describe()
	s.Paused = c.paused.has(s.Obj) && (e.state != InFlight || e.later != nil)
	return s
}

// describe describes an entry. It counts no keys ahead.
func (e *entry[Obj]) describe() KeyInfo[Obj] {
	v := e.newest()
	s := KeyInfo[Obj]{
		Obj: v.obj, Since: e.unreconciled().since, Revision: v.revision, Deleted: v.deleted, Deletes: e.version.deleted,
		State: e.state, Queue: QueueInfo[Obj]{Lane: e.version.lane},
		// An orphan counts as attempted for the watermark only.
		Tried: v.tried && e.cause != CauseOrphan, Paused: v.paused && (e.state != InFlight || e.later != nil),
		Failures: int(e.past.failures), Failure: e.past.failure(), Reason: e.past.reason(), LastAttempt: e.past.ended, Wanted: v.wanted,
		At: e.dueAt, Timed: e.pos >= 0,
	}
	if e.state == Queued {
		s.Queue.Group, s.Queue.Holder = e.group.name, e.group.holder.version.obj
	}
	return s
}

// Deletions returns the objects whose deletion is the newest change of their keys, by key, in no order.
func (c *Core[Obj]) Deletions() iter.Seq2[string, Obj] {
	return func(yield func(string, Obj) bool) {
		for key, e := range c.keys.entries {
			if v := e.newest(); v.deleted && !yield(key, v.obj) {
				return
			}
		}
	}
}

// TracksKeyOf reports whether the key of obj has an entry.
func (c *Core[Obj]) TracksKeyOf(obj Obj) bool { return c.keys.find(obj) != nil }

// HasVersion reports whether the core has a version of obj, or a later one, or an operation on obj is running, which may
// have begun with it.
func (c *Core[Obj]) HasVersion(obj Obj, revision uint64) bool {
	e := c.keys.find(obj)
	return e != nil && (e.state == InFlight || e.newest().revision >= revision)
}
