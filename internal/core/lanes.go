// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Lane is the kind of a change. When there is more to do than fits, each lane has its
// share, so that none waits for all of another.
type Lane uint8

const (
	// Fresh: a new or changed object, observed not long ago.
	Fresh Lane = iota
	// Deletion: an object that is gone.
	Deletion
	// Backlog: what was there when it began to take long, such as the initial load, what
	// has been fresh for too long, and what became ready at once with many others.
	Backlog
	// Refresh: an unchanged object that is to be applied again.
	Refresh
	// NumLanes is how many lanes there are.
	NumLanes

	// waited is the lane of the keys whose time has come, or that were released. They
	// are not in a queue but in the heap of what is due.
	waited = NumLanes
)

var laneNames = [NumLanes]string{"fresh", "deletion", "backlog", "refresh"}

// String returns the lane's name in lower case.
func (l Lane) String() string { return laneNames[l] }

// places say which lane has which items, counted over the rounds, so that it holds for
// rounds of any size and wherever they are cut short. What a lane does not need others
// have, in the order of rest.
var (
	places = [...]Lane{waited, Fresh, Deletion, Backlog, waited, Fresh, Refresh, Backlog}
	rest   = [...]Lane{Fresh, Deletion, Backlog, Refresh}
)

// share is how many places there are to one for the keys whose time has come.
const share = 4

// queue is a list of entries.
type queue[Obj any] struct {
	head, tail *entry[Obj]
	size       int
}

func (q *queue[Obj]) pushBack(e *entry[Obj]) {
	e.prev, e.next = q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
	q.size++
}

func (q *queue[Obj]) pushFront(e *entry[Obj]) {
	e.prev, e.next = nil, q.head
	if q.head == nil {
		q.tail = e
	} else {
		q.head.prev = e
	}
	q.head = e
	q.size++
}

func (q *queue[Obj]) remove(e *entry[Obj]) {
	if e.prev == nil {
		q.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	q.size--
}

// youth is how long a change is fresh.
const youth = 20 * time.Millisecond

// age makes what has been fresh for too long part of the backlog, unless it is no more
// than half of a round: that is soon done, and is not to wait behind all of the backlog for
// having waited a little.
func (c *Core[Obj]) age(now time.Duration) {
	fresh := &c.lanes[Fresh]
	old := 0
	for e := fresh.head; e != nil && e.dueAt+youth <= now && old <= c.round.size/2; e = e.next {
		old++
	}
	if old <= c.round.size/2 {
		return
	}
	for e := fresh.head; e != nil && e.dueAt+youth <= now; e = fresh.head {
		fresh.remove(e)
		e.lane = Backlog
		c.lanes[Backlog].pushBack(e)
	}
}

// readyKeys returns how many keys are ready.
func (c *Core[Obj]) readyKeys() int { return c.counts[Ready] }

// ready puts an entry that is in no queue at the end of its lane.
func (c *Core[Obj]) ready(e *entry[Obj]) {
	c.move(e, Ready)
	c.owe(e)
	c.try(e)
	c.lanes[e.lane].pushBack(e)
}

// readyInCrowd makes an entry ready that is in no queue, one of many perhaps: they are
// part of the backlog, and do not take the room from what is to be observed.
func (c *Core[Obj]) readyInCrowd(e *entry[Obj]) {
	e.lane, e.crowd = Backlog, true
	c.crowd++
	c.ready(e)
}

// readyAgain puts an entry that is in no queue at the front of its lane.
func (c *Core[Obj]) readyAgain(e *entry[Obj]) {
	c.move(e, Ready)
	c.owe(e)
	c.try(e)
	c.lanes[e.lane].pushFront(e)
}

// nextReady returns the entry that has a place, out of its queue; nil if none is ready.
func (c *Core[Obj]) nextReady(place int) *entry[Obj] {
	lane := places[place%len(places)]
	if lane != waited && c.lanes[lane].size > 0 {
		return c.unready(c.lanes[lane].head)
	}
	for _, lane := range rest {
		if c.lanes[lane].size > 0 {
			return c.unready(c.lanes[lane].head)
		}
	}
	return nil
}

// unready takes an entry out of its lane.
func (c *Core[Obj]) unready(e *entry[Obj]) *entry[Obj] {
	c.lanes[e.lane].remove(e)
	if e.crowd {
		e.crowd = false
		c.crowd--
	}
	return e
}
