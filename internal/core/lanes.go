// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "slices"

// Lane is a queue in which changes wait for their turn. When there is more work than fits into a
// round, each lane has its share, so that none waits for all of another.
type Lane uint8

const (
	// Fresh: new and changed objects that the catch-up cursor read.
	Fresh Lane = iota
	// Deletion: deleted objects.
	Deletion
	// Backlog: new and changed objects that the main cursor read.
	Backlog
	// Refresh: unchanged objects that are applied again.
	Refresh
	// Resumption: objects that were paused, and orphans.
	Resumption
	// NumLanes is the number of lanes.
	NumLanes

	// dueLane stands for the keys that are due. They are in a heap, not in a queue.
	dueLane = NumLanes
)

// Lanes is a set of lanes.
type Lanes uint8

// LanesOf returns a set.
func LanesOf(lanes ...Lane) (s Lanes) {
	for _, l := range lanes {
		s |= 1 << l
	}
	return s
}

// Has reports whether a lane is in the set.
func (s Lanes) Has(l Lane) bool { return s&(1<<l) != 0 }

var laneNames = [NumLanes]string{"fresh", "deletion", "backlog", "refresh", "resumed"}

// String returns the lane's name in lower case.
func (l Lane) String() string { return laneNames[l] }

// places assigns the operations to lanes, in a cycle. It is counted over the rounds, so
// that the shares hold for rounds of any size, even if rounds are cut short. A place that its lane
// does not need goes to the lane's partner, if it has another one, and then to the other lanes in
// the order of fallbacks.
var (
	places    = [...]Lane{dueLane, Fresh, Deletion, Backlog, dueLane, Fresh, Refresh, Resumption}
	partners  = [NumLanes + 1]Lane{Fresh, Deletion, Resumption, Refresh, Backlog, dueLane}
	fallbacks = [...]Lane{Fresh, Deletion, Backlog, Resumption, Refresh}
)

// orders has, for the lane of a place, the lanes in the order in which they get the place.
var orders = func() (orders [NumLanes + 1][]Lane) {
	for lane := range NumLanes + 1 {
		order := []Lane{lane, partners[lane]}
		order = append(append(order, fallbacks[:]...), dueLane)
		for _, l := range order {
			if !slices.Contains(orders[lane], l) {
				orders[lane] = append(orders[lane], l)
			}
		}
	}
	return orders
}()

// queue is a linked list of entries.
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

// Refreshing returns how many refreshes are ready or in flight.
func (c *Core[Obj]) Refreshing() int { return c.lanes[Refresh].size + c.refreshesInFlight }
