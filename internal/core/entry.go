// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"time"
)

// entry is the state of a key that waits or is worked on: its facts, and what the indexes of the core
// have of it. The facts are set at will, and then [Core.put] or [Core.reindex] brings the indexes up to
// date. But the facts that decide the queue of an entry change only while it is in none: [Core.take]
// takes it out. The fields are ordered to save memory: there may be millions of entries.
type entry[Obj any] struct {
	key string
	// The newest version of the object that was observed. runs is the one that the operation of an entry
	// in flight runs; nil if that is the newest.
	rowVersion[Obj]
	runs *rowVersion[Obj]
	// prev and next are the neighbours in the entry's queue.
	prev, next *entry[Obj]

	// dueAt is when the entry is due, if it waits for a time; otherwise when its change was
	// observed, or noTime. lastAttempt is when the last operation on the key ended.
	dueAt, lastAttempt time.Duration
	// text is the text of the last attempt, if that failed or was blocked.
	text *string
	// group is the group that the entry holds or waits for; nil if none.
	group *group[Obj]

	// indexed is what the indexes have of the entry.
	indexed indexed
	// pos is the position in the heap due; -1 means not in the heap.
	pos int32
	// failures counts the failures in a row, tries those since the object changed.
	failures, tries int32
	state           State
	// from is the state that the entry had when its turn came.
	from State
	// mark is the mark of the last outcome, see [Outcome.Mark].
	mark uint8
	// requeues counts the outcomes in a row that asked for a backoff without a failure. It stops at
	// 255: every backoff is at its maximum by then.
	requeues uint8
	// result is the result of the last attempt.
	result result
	// fixed: the time of the retry is not a backoff. The outcome set it, or the breaker that closed.
	// counted: the last error counted for the breaker.
	fixed, counted bool
	// cause is the reason for the next run.
	cause Cause
}

// result is the result of an attempt, as far as it is counted.
type result uint8

const (
	// wentWell: the attempt neither failed nor was blocked, or there was none.
	wentWell result = iota
	hasFailed
	wasBlocked
	numResults
)

// noTime is the dueAt of a blocked entry that has no recheck time.
const noTime = -1

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

// failure returns the text of the last error; empty if the last attempt did not fail.
func (e *entry[Obj]) failure() string {
	if e.result != hasFailed || e.text == nil {
		return ""
	}
	return *e.text
}

// find returns the entry of an object's key; nil if it has none.
func (c *Core[Obj]) find(obj Obj) *entry[Obj] {
	if len(c.entries) == 0 {
		return nil
	}
	return c.entries[string(c.keyOf(obj))]
}

// addEntry adds an entry for a version of an object whose key has none. The entry is in no queue and in no
// index yet.
func (c *Core[Obj]) addEntry(v rowVersion[Obj]) *entry[Obj] {
	return c.addEntryOf(string(c.keyOf(v.obj)), v)
}

// entryOf returns the entry of the key of an operation, and adds it if there is none.
func (c *Core[Obj]) entryOf(op *Operation[Obj]) *entry[Obj] {
	if op.entry == nil {
		op.entry = c.addEntry(c.versionOf(&Change[Obj]{Obj: op.Obj, Revision: op.Revision, Since: op.since, Deleted: op.Deleted, Lane: op.lane}))
	}
	return op.entry
}

// addEntryOf is addEntry for a key that is known.
func (c *Core[Obj]) addEntryOf(key string, v rowVersion[Obj]) *entry[Obj] {
	e := c.newEntry()
	e.key, e.rowVersion = key, v
	e.dueAt, e.state, e.from = c.round.now, Taken, Ready
	e.pos, e.indexed.unreconciledPos, e.indexed.untriedPos = -1, -1, -1
	c.entries[e.key] = e
	c.peak = max(c.peak, len(c.entries))
	c.counts[Taken]++
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
// for each object. It is called when nothing points to them any more: no operation, and not touched.
func (c *Core[Obj]) freeGone() {
	for _, e := range c.gone {
		if !e.indexed.touched && len(c.free) < maxFree {
			*e = entry[Obj]{}
			c.free = append(c.free, e)
		}
	}
	c.gone = reuse(c.gone)
}

// reuse clears a slice, so that it keeps nothing alive, and returns it with length 0 and its memory.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// minPeak is the peak up to which the map of entries is never replaced by a smaller one.
const minPeak = 1024

// forget removes an entry: its key is reconciled, or need not be tracked any more.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.take(e)
	e.since, e.deleted, e.result = 0, false, wentWell
	c.reindex(e)
	c.counts[Taken]--
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

// take takes an entry out of the queue and the heap of its state. It is in state Taken then, until it
// is put into another.
func (c *Core[Obj]) take(e *entry[Obj]) {
	if q := c.queueOf(e); q != nil {
		q.remove(e)
	}
	if e.pos >= 0 {
		c.due.Remove(e)
	}
	c.setState(e, Taken)
}

// put puts an entry that is in no queue into a state, at the end of the queue of that state, and brings
// the indexes up to date. A paused entry does not wait for its turn: it waits to be resumed.
func (c *Core[Obj]) put(e *entry[Obj], s State) {
	if e.paused && (s == Ready || s == Queued) {
		c.pause(e)
		return
	}
	c.setState(e, s)
	if q := c.queueOf(e); q != nil {
		q.pushBack(e)
	}
	if e.isTimed() {
		c.due.Push(e, int64(e.dueAt))
	}
	c.reindex(e)
}

// putBack puts an entry that is in no queue back to where it waited before its turn came: a change at the
// front of its lane.
func (c *Core[Obj]) putBack(e *entry[Obj]) {
	c.put(e, e.from)
	if e.state == Ready {
		lane := &c.lanes[e.lane]
		lane.remove(e)
		lane.pushFront(e)
	}
}

// wait puts an entry that is in no queue into a state that ends at a time.
func (c *Core[Obj]) wait(e *entry[Obj], s State, until time.Duration) {
	e.dueAt = until
	c.put(e, s)
}

func (c *Core[Obj]) setState(e *entry[Obj], s State) {
	c.counts[e.state]--
	c.counts[s]++
	e.state = s
}

// isTimed reports whether an entry waits for a time: then it is in the heap due.
func (e *entry[Obj]) isTimed() bool {
	switch e.state {
	case Held, Retry, Requeue:
		return true
	}
	return e.state == Blocked && e.dueAt != noTime
}

// queueOf returns the queue that an entry is in; nil if none.
func (c *Core[Obj]) queueOf(e *entry[Obj]) *queue[Obj] {
	switch {
	case e.state == Ready:
		return &c.lanes[e.lane]
	case e.state == Queued:
		return &e.group.waiting
	case e.backsOff():
		return &c.breaker.backingOff
	}
	return nil
}

// backsOff reports whether an entry waits for a backoff that ends early if the breaker closes.
func (e *entry[Obj]) backsOff() bool { return e.state == Retry && e.counted && !e.fixed }

// hold makes a changed entry that is in no queue wait if it has just failed. It reports whether it does.
func (c *Core[Obj]) hold(e *entry[Obj], now time.Duration) bool {
	earliest := after(e.lastAttempt, c.backoff.Min)
	if e.failures == 0 || earliest <= now {
		return false
	}
	c.wait(e, Held, earliest)
	return true
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
