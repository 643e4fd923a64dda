// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"time"
)

// entry is the state of a key that waits or is worked on. The fields are ordered to save memory:
// there may be millions of entries.
type entry[Obj any] struct {
	key string
	obj Obj

	// revision is the revision of obj. since is the revision since which the key is not reconciled;
	// 0 if it is reconciled. That is the revision of the change to apply or, for a key that fails
	// after it was reconciled, as in markUnreconciled.
	revision, since uint64
	// prev and next are the neighbours in the entry's queue.
	prev, next *entry[Obj]

	// dueAt is when the entry is due, if it waits for a time; otherwise when its change was
	// observed. lastAttempt is when the last operation on the key ended.
	dueAt, lastAttempt time.Duration
	// wanted is when the unreconciled change was written; 0 means that the time must be read from
	// the object.
	wanted time.Duration
	// failure is the text of the last error, nil if the last attempt did not fail. reason is the text
	// of the last attempt if that was blocked.
	failure, reason *string
	// breaker is the breaker that the last error counted for; nil if none.
	breaker *breaker[Obj]
	// group is the group that the entry holds or waits for; nil if none.
	group *group[Obj]

	// pos, unreconciledPos and untriedPos are the positions in the heaps due, unreconciled and
	// untried; -1 means not in the heap.
	pos, unreconciledPos, untriedPos int32
	// failures counts the failures in a row, tries those since the object changed.
	failures, tries int32
	// seen is the number of the round in which the change was observed.
	seen uint32
	// probedOpening is the opening of its breaker that the entry probes for; 0 if it is no probe.
	probedOpening uint32
	state         State
	// from is the state that the entry had when its turn came.
	from    State
	lane    Lane
	deleted bool
	// mark is the mark of the last outcome, see [Outcome.Mark].
	mark uint8
	// requeues counts the outcomes in a row that asked for a backoff without a failure. It stops at
	// 255: every backoff is at its maximum by then.
	requeues uint8
	// tried: an operation was attempted for the change. blocked: the last attempt was blocked.
	tried, blocked bool
	// stuck: the operation in flight is stuck.
	stuck bool
	// fixed: the time of the retry is not a backoff. The outcome set it, or a breaker that closed.
	fixed bool
	// cause is the reason for the next run.
	cause Cause
	// recorded is the kind of the record that the key has. touched: the entry is in Core.touched. gone:
	// the entry was removed. overdue: the change must have a record, although it holds the mark.
	recorded               Recorded
	touched, gone, overdue bool
	// repeat: the key is reconciled, and is run again for no change.
	repeat bool
}

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

// find returns the entry of an object's key; nil if it has none.
func (c *Core[Obj]) find(obj Obj) *entry[Obj] {
	if len(c.entries) == 0 {
		return nil
	}
	return c.entries[string(c.keyOf(obj))]
}

// addEntry adds an entry for the change of an item whose key has none. The entry is in no queue
// yet.
func (c *Core[Obj]) addEntry(it *Item[Obj]) *entry[Obj] {
	return c.addEntryOf(it, string(c.keyOf(it.Obj)))
}

// addEntryOf is addEntry for a key that is known.
func (c *Core[Obj]) addEntryOf(it *Item[Obj], key string) *entry[Obj] {
	e := c.newEntry()
	e.key, e.obj = key, it.Obj
	e.revision, e.since, e.deleted, e.lane = it.Revision, it.since, it.Deleted, it.lane
	e.dueAt, e.seen, e.state = c.round.now, c.rounds, Planned
	e.pos, e.unreconciledPos, e.untriedPos = -1, -1, -1
	e.resetWanted(c.round.now)
	if e.deleted {
		c.deletions++
	}
	c.entries[e.key] = e
	c.peak = max(c.peak, len(c.entries))
	c.counts[Planned]++
	return e
}

// maxFree bounds the entries whose memory is kept for others.
const maxFree = 1024

// newEntry returns a zero entry.
func (c *Core[Obj]) newEntry() *entry[Obj] {
	last := len(c.free) - 1
	if last < 0 {
		return new(entry[Obj])
	}
	e := c.free[last]
	c.free[last], c.free = nil, c.free[:last]
	return e
}

// freeGone keeps the memory of removed entries for others, because a loop with workers needs an entry
// for each object. It is called when nothing points to them any more: no item, and not touched.
func (c *Core[Obj]) freeGone() {
	for _, e := range c.gone {
		if !e.touched && len(c.free) < maxFree {
			*e = entry[Obj]{}
			c.free = append(c.free, e)
		}
	}
	c.gone = reuse(c.gone)
}

// setDeleted sets whether the object of an entry was deleted.
func (c *Core[Obj]) setDeleted(e *entry[Obj], deleted bool) {
	if e.deleted {
		c.deletions--
	}
	if deleted {
		c.deletions++
	}
	e.deleted = deleted
}

// resetWanted sets wanted for a new change: to the given time for a deletion, otherwise to 0, so
// that it is read from the object.
func (e *entry[Obj]) resetWanted(now time.Duration) {
	e.wanted = 0
	if e.deleted {
		e.wanted = max(1, now)
	}
}

// minPeak is the peak up to which the map of entries is never replaced by a smaller one.
const minPeak = 1024

// forget removes an entry that is in no queue: its key is reconciled, or need not be tracked any
// more.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.markReconciled(e)
	c.setBreaker(e, nil)
	c.setBlocked(e, false)
	c.setDeleted(e, false)
	c.counts[e.state]--
	e.gone = true
	c.touchRecorded(e)
	delete(c.entries, e.key)
	if len(c.gone) < maxFree {
		c.gone = append(c.gone, e)
	}
	if c.peak > minPeak && len(c.entries) < c.peak/4 {
		entries := make(map[string]*entry[Obj], len(c.entries))
		for k, e := range c.entries {
			entries[k] = e
		}
		c.entries, c.peak = entries, len(entries)
	}
}

// move sets the state of an entry that is in no queue.
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

// backsOff reports whether an entry waits for a backoff that ends early if its breaker closes.
func (e *entry[Obj]) backsOff() bool { return e.state == Retry && e.breaker != nil && !e.fixed }

// leaveQueue removes an entry from the queue and the heap of its state.
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

// after returns t+d, or the largest time if the sum would overflow: users write "never" as the
// longest delay.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// byRevision orders entries by revision, then by key: orphans may share a revision.
func byRevision[Obj any](a, b *entry[Obj]) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.key, b.key))
}

// setBlocked sets whether the last attempt of an entry was blocked.
func (c *Core[Obj]) setBlocked(e *entry[Obj], blocked bool) {
	if e.blocked {
		c.blocked--
	}
	if blocked {
		c.blocked++
	}
	e.blocked = blocked
}

// setFailure sets the error text of the last attempt of an entry; nil if it did not fail.
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
	c.touchRecorded(e)
	c.version++
}
