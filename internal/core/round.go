// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

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

// why returns the cause of an operation on a change in a lane.
func (l Lane) why() Cause {
	if l == Refresh {
		return CauseRefresh
	}
	return CauseChange
}

// places has the lanes in the order in which they get a place: that of an operation. The first is the lane that
// the place belongs to; Backlog and Resumption lend each other their places. The operations have the places in
// turn, counted over the rounds, so that the shares hold for rounds of any size, even if rounds are cut short.
var places = [...][NumLanes + 1]Lane{
	{dueLane, Fresh, Deletion, Backlog, Resumption, Refresh},
	{Fresh, Deletion, Backlog, Resumption, Refresh, dueLane},
	{Deletion, Fresh, Backlog, Resumption, Refresh, dueLane},
	{Backlog, Resumption, Fresh, Deletion, Refresh, dueLane},
	{dueLane, Fresh, Deletion, Backlog, Resumption, Refresh},
	{Fresh, Deletion, Backlog, Resumption, Refresh, dueLane},
	{Refresh, Fresh, Deletion, Backlog, Resumption, dueLane},
	{Resumption, Backlog, Fresh, Deletion, Refresh, dueLane},
}

// round is the state of a round, see [Core.Begin], and whose turn it is.
type round struct {
	// number counts the rounds.
	number uint32
	now    time.Duration
	// left is how many operations the round may still run. passedOver counts the keys whose turn came and
	// that did not run.
	left, passedOver int
	// entries: each operation gets an entry.
	entries bool
	// at is the place of the next operation, see places: it is counted over the rounds. sourcesTurn: the last key
	// that was taken for a lane was ready.
	at          int
	sourcesTurn [NumLanes]bool
}

// maxPassedOver bounds the keys of a round whose turn comes and that do not run: of a table that is paused, the
// core reads a part in each round.
const maxPassedOver = 1024

func (r *round) begin(now time.Duration, size int, entries bool) {
	r.number++
	r.now, r.left, r.passedOver, r.entries = now, size, 0, entries
}

// ended reports whether the round takes no more keys.
func (r *round) ended() bool { return r.left <= 0 || r.passedOver >= maxPassedOver }

// place returns the lanes in the order in which they get the next place.
func (r *round) place() *[NumLanes + 1]Lane { return &places[r.at] }

// fill is called when an operation got the next place.
func (r *round) fill() {
	r.left--
	r.at = (r.at + 1) % len(places)
}

// giveBack is called for an operation that got a place and is not run.
func (r *round) giveBack() {
	r.left++
	r.passedOver++
	r.at = (r.at + len(places) - 1) % len(places)
}
