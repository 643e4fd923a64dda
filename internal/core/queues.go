// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"time"

	"github.com/statekeel/statekeel/internal/keyheap"
)

// queues has the entries where they wait: an entry is in the queue of its state, or in none.
type queues[Obj any] struct {
	// due orders the entries that wait for a time by that time.
	due keyheap.Heap[*entry[Obj]]
	// lanes has the ready entries, by lane.
	lanes [NumLanes]queue[Obj]
	// backingOff has the entries that wait for their backoff after a failure.
	backingOff queue[Obj]
	// groups has the queues of the groups.
	groups groupSet[Obj]
	// index gets each entry when it was put into a state.
	index *Index[Obj]
}

// queue is a linked list of entries.
type queue[Obj any] struct {
	head, tail *entry[Obj]
	size       int
}

// insert inserts an entry before another one, or at the end if that is nil.
func (q *queue[Obj]) insert(e, before *entry[Obj]) {
	e.prev, e.next = *q.prevOf(before), before
	*q.nextOf(e.prev), *q.prevOf(before) = e, e
	q.size++
}

func (q *queue[Obj]) remove(e *entry[Obj]) {
	*q.nextOf(e.prev), *q.prevOf(e.next) = e.next, e.prev
	e.prev, e.next = nil, nil
	q.size--
}

// nextOf returns where the queue has the entry after the given one; after none is the head.
func (q *queue[Obj]) nextOf(e *entry[Obj]) **entry[Obj] {
	if e == nil {
		return &q.head
	}
	return &e.next
}

// prevOf returns where the queue has the entry before the given one; before none is the tail.
func (q *queue[Obj]) prevOf(e *entry[Obj]) **entry[Obj] {
	if e == nil {
		return &q.tail
	}
	return &e.prev
}

// of returns the queue that an entry is in; nil if none.
func (q *queues[Obj]) of(e *entry[Obj]) *queue[Obj] {
	switch {
	case e.state == Ready:
		return &q.lanes[e.version.lane]
	case e.state == Queued:
		return e.group.line(e)
	case e.state == Retry && !e.past.fixed:
		return &q.backingOff
	}
	return nil
}

// isTimed reports whether an entry waits for a time: then it is in the heap of due keys.
func (e *entry[Obj]) isTimed() bool {
	switch e.state {
	case Held, Retry, Requeue:
		return true
	}
	return e.state == Blocked && e.dueAt != noTime
}

// take takes an entry out of the queue and the heap of its state. It is in state Taken then, until it
// is put into another.
func (q *queues[Obj]) take(e *entry[Obj]) {
	if in := q.of(e); in != nil {
		in.remove(e)
	}
	if e.pos >= 0 {
		q.due.Remove(e)
	}
	e.state = Taken
}

// takeTurn takes an entry out of its queue because its turn has come.
func (q *queues[Obj]) takeTurn(e *entry[Obj]) *entry[Obj] {
	e.from = e.state
	q.take(e)
	return e
}

// put puts an entry that is in no queue into a state, at the end of the queue of that state, and brings
// the indexes up to date. A paused entry does not wait for its turn: it waits to be resumed.
func (q *queues[Obj]) put(e *entry[Obj], s State) {
	if e.version.paused && (s == Ready || s == Queued) {
		q.pause(e)
		return
	}
	e.state = s
	if in := q.of(e); in != nil {
		in.insert(e, nil)
	}
	if e.isTimed() {
		q.due.Push(e, int64(e.dueAt))
	}
	q.index.reindex(e)
}

// putBack puts an entry that is in no queue back to where it waited before its turn came: a change at the
// front of its lane.
func (q *queues[Obj]) putBack(e *entry[Obj]) {
	q.put(e, e.from)
	if e.state == Ready {
		lane := &q.lanes[e.version.lane]
		lane.remove(e)
		lane.insert(e, lane.head)
	}
}

// wait puts an entry that is in no queue into a state that ends at a time.
func (q *queues[Obj]) wait(e *entry[Obj], s State, until time.Duration) {
	e.dueAt = until
	q.put(e, s)
}

// pause makes an entry that is in no queue wait to be resumed.
func (q *queues[Obj]) pause(e *entry[Obj]) {
	q.put(e, Paused)
	q.leaveGroup(e)
}

// resume makes an entry ready that was paused, or due at the given time.
func (q *queues[Obj]) resume(e *entry[Obj], now time.Duration) {
	if e.cause == CauseChange {
		e.cause = CauseResumed
	}
	q.take(e)
	if e.from == Ready {
		// A reconciled object that is run again stays a refresh.
		if e.version.since > 0 {
			e.version.lane = Resumption
		}
		q.put(e, Ready)
	} else {
		q.wait(e, e.from, now)
	}
}

// hurry makes an entry due at the given time, for the given cause, if it waits for a time or for a channel, or is
// Terminal, even if the target is looked at meanwhile. It reports whether it did. An entry that is due earlier stays so.
func (q *queues[Obj]) hurry(e *entry[Obj], at time.Duration, cause Cause) bool {
	s := e.state
	switch s {
	case Held, Retry, Requeue, Blocked:
		switch {
		case e.home == nil && e.pos >= 0:
			at = min(at, e.dueAt)
		case e.home != nil && e.home.state != Terminal && e.home.dueAt != noTime:
			// What is due now is the look.
			at = min(at, e.home.dueAt)
		}
	case Terminal:
		// It is retried like any other failure, and may fail as often before it is given up.
		e.past.tries, s = 0, Retry
	default:
		return e.home != nil && e.hurryHome(at, cause)
	}
	q.take(e)
	if e.home != nil && e.home.state == Terminal {
		e.past.tries = 0
	}
	e.cause, e.home = cause, nil
	q.wait(e, s, at)
	return true
}

// look makes an entry in state Retry, Requeue, Blocked or Terminal due at the given time, so that the target is looked at.
// Then it may go home. An entry that is due, or is to be refreshed, is called anyway.
func (q *queues[Obj]) look(e *entry[Obj], now time.Duration) {
	switch waits := e.state == Retry || e.state == Requeue || e.state == Blocked; {
	case e.home != nil, e.pos >= 0 && e.dueAt <= now, e.cause == CauseRefresh, !waits && e.state != Terminal:
		return
	}
	e.home = &home{e.state, e.dueAt, e.cause}
	q.take(e)
	s := e.home.state
	if s == Terminal {
		// It is no retry that waits for its backoff.
		s, e.past.fixed = Retry, true
	}
	e.cause = CauseVerify
	q.wait(e, s, now)
}

// goHome makes an entry wait where it waited before it was looked at, once it is put back.
func (e *entry[Obj]) goHome() {
	e.from, e.dueAt, e.cause = e.home.state, e.home.dueAt, e.home.cause
	e.past.fixed = e.past.fixed && e.from != Terminal
	e.home = nil
}

// hurryHome makes an entry due at the given time, for the given cause, when the look is over whose turn has come. It returns
// true.
func (e *entry[Obj]) hurryHome(at time.Duration, cause Cause) bool {
	h := e.home
	if h.state == Terminal {
		e.past.tries, h.state, h.dueAt = 0, Retry, at
	} else if h.dueAt == noTime {
		h.dueAt = at
	}
	h.dueAt, h.cause = min(h.dueAt, at), cause
	return true
}

// dueBy returns the key that has been due for longest; nil if none is due at the given time.
func (q *queues[Obj]) dueBy(now time.Duration) *entry[Obj] {
	if e, at, ok := q.due.Min(); ok && time.Duration(at) <= now {
		return e
	}
	return nil
}

// enterGroup makes an entry, which is in no queue, the holder of its group, if it has one. If another entry holds
// the group, the entry is queued and enterGroup returns false.
func (q *queues[Obj]) enterGroup(e *entry[Obj]) bool {
	if q.groups.enter(e) {
		return true
	}
	q.put(e, Queued)
	return false
}

// leaveGroup is called when an entry no longer needs its group. If it held the group, the first waiting entry goes
// back to where it came from. That entry keeps the group until it has been worked on, so that no later entry
// overtakes it.
func (q *queues[Obj]) leaveGroup(e *entry[Obj]) {
	if next := q.groups.leave(e); next != nil {
		q.take(next)
		q.putBack(next)
	}
}

// changeGroup makes an entry leave its group if the given version of its object belongs to another.
func (q *queues[Obj]) changeGroup(e *entry[Obj], obj Obj) {
	if e.group != nil && q.groups.of(obj) != e.group.name {
		q.leaveGroup(e)
	}
}

// keepsPlace reports whether an entry keeps its place in its queue when it gets a change. Otherwise
// a key that changes often would never be run. same: it asks for the same as the change that it replaces, and
// that was not attempted.
func (q *queues[Obj]) keepsPlace(e *entry[Obj], v *rowVersion[Obj], same bool) bool {
	switch e.state {
	case Ready:
		return (same || e.version.deleted == v.deleted && e.version.lane == v.lane) && !v.paused
	case Queued:
		isRefresh := e.version.lane == Refresh
		return q.groups.of(v.obj) == e.group.name && !v.paused && (same || isRefresh == (v.lane == Refresh))
	case Held:
		return same
	case Paused:
		return same && v.paused
	}
	return false
}
