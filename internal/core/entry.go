// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"time"
)

// entry is a key that waits or is worked on. The fields are ordered for size: there may
// be millions.
type entry[Obj any] struct {
	key string
	obj Obj

	// revision is that of the version of the object in obj; since is that of
	// the change that is not reconciled yet, or, for a key that had been
	// reconciled, the first after what had been observed when it began to fail; 0 if
	// it is reconciled.
	revision, since uint64
	// prev and next are its neighbours in the queue that it is in.
	prev, next *entry[Obj]

	// dueAt is the place in the due heap while waiting for a clock, and before that
	// when the change was observed; lastAttempt is when the last operation on the key
	// ended.
	dueAt, lastAttempt time.Duration
	// wanted is when the change that it owes was written; 0 if only the object tells.
	wanted time.Duration
	// failure is the text of the last attempt's error, nil if it did not fail.
	failure *string
	// breaker is that of the class of the last attempt's error; nil if it has none.
	breaker *breaker[Obj]
	// group is the one that the entry has or waits for; nil if none.
	group *group[Obj]

	// The positions in the heaps, -1 if in none.
	pos, unreconciledPos, untriedPos int32
	// failures counts those in a row, tries those since the object changed.
	failures, tries int32
	// seen is the round in which the change was observed.
	seen uint32
	// probedOpening is the opening of the breaker of its class for which it probes; 0 if it does
	// not.
	probedOpening uint32
	state         State
	// from is the state that the entry was in before the round took it.
	from    State
	lane    Lane
	deleted bool
	// mark is the caller's note from the last outcome.
	mark uint8
	// requeues counts the outcomes in a row that were done with a backoff, up to 255: any
	// backoff is at its longest by then.
	requeues uint8
	// tried: the change that is owed has been attempted; blocked: the last attempt was.
	tried, blocked bool
	// stuck: its operation is.
	stuck bool
	// fixed: the time of its retry is no backoff: it was asked for, or a breaker closed.
	fixed bool
	// cause is why it is going to be run.
	cause Cause
}

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

func (c *Core[Obj]) find(obj Obj) *entry[Obj] {
	if len(c.entries) == 0 {
		return nil
	}
	return c.entries[string(c.keyOf(obj))]
}

// addEntry adds an entry for the change of an item whose key has none. It is in no queue.
func (c *Core[Obj]) addEntry(it *Item[Obj]) *entry[Obj] {
	e := &entry[Obj]{
		key: string(c.keyOf(it.Obj)), obj: it.Obj,
		revision: it.Revision, since: it.since, deleted: it.Deleted, lane: it.lane,
		dueAt: c.round.now, pos: -1, unreconciledPos: -1, untriedPos: -1, seen: c.rounds, state: Planned,
	}
	e.resetWanted(c.round.now)
	if e.deleted {
		c.deletions++
	}
	c.entries[e.key] = e
	c.peak = max(c.peak, len(c.entries))
	c.counts[Planned]++
	return e
}

// setDeleted notes whether an entry is to leave the target.
func (c *Core[Obj]) setDeleted(e *entry[Obj], deleted bool) {
	if e.deleted {
		c.deletions--
	}
	if deleted {
		c.deletions++
	}
	e.deleted = deleted
}

// resetWanted forgets when the change was written that the entry owed before: of one that is
// new the object tells, of a deletion it is when that was observed.
func (e *entry[Obj]) resetWanted(now time.Duration) {
	e.wanted = 0
	if e.deleted {
		e.wanted = max(1, now)
	}
}

// minPeak is the size below which the map of entries is never made anew.
const minPeak = 1024

// forget drops an entry that is in no queue and does not fail: its key is reconciled.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.markReconciled(e)
	c.setBreaker(e, nil)
	c.setBlocked(e, false)
	c.setDeleted(e, false)
	c.counts[e.state]--
	delete(c.entries, e.key)
	if c.peak > minPeak && len(c.entries) < c.peak/4 {
		entries := make(map[string]*entry[Obj], len(c.entries))
		for k, e := range c.entries {
			entries[k] = e
		}
		c.entries, c.peak = entries, len(entries)
	}
}

// move puts an entry that is in no queue into a state.
func (c *Core[Obj]) move(e *entry[Obj], s State) {
	c.counts[e.state]--
	c.counts[s]++
	e.state = s
}

// wait puts an entry that is in no queue into a state that ends at a time.
func (c *Core[Obj]) wait(e *entry[Obj], s State, until time.Duration) {
	c.move(e, s)
	e.dueAt = until
	c.due.Push(e, int64(until))
	if e.backsOff() {
		e.breaker.backingOff.pushBack(e)
	}
}

// backsOff reports whether an entry waits for its backoff, and not if a breaker closes.
func (e *entry[Obj]) backsOff() bool { return e.state == Retry && e.breaker != nil && !e.fixed }

// leaveQueue takes an entry out of the queue that its state says it is in.
func (c *Core[Obj]) leaveQueue(e *entry[Obj]) {
	switch e.state {
	case Ready:
		c.removeReady(e)
	case Queued:
		e.group.waiting.remove(e)
	case Tripped:
		e.breaker.held.remove(e)
		c.scheduleProbes(e.breaker)
	default:
		if e.backsOff() {
			e.breaker.backingOff.remove(e)
		}
		if e.pos >= 0 {
			c.due.Remove(e)
		}
	}
}

// after returns the time d after t, or the end of time if that is before: users write
// "never" as the longest delay there is.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// byRevision orders entries; what was adopted may share its revision.
func byRevision[Obj any](a, b *entry[Obj]) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.key, b.key))
}

func (c *Core[Obj]) setBlocked(e *entry[Obj], blocked bool) {
	if e.blocked {
		c.blocked--
	}
	if blocked {
		c.blocked++
	}
	e.blocked = blocked
}

func (c *Core[Obj]) setFailure(e *entry[Obj], text *string) {
	switch {
	case e.failure == nil && text == nil:
		return
	case e.failure == nil:
		c.failing++
	case text == nil:
		c.failing--
	case *e.failure == *text:
		e.failure = text
		return
	}
	e.failure = text
	c.version++
}
