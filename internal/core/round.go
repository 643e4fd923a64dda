// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

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
	// turn is the place of the next operation, see places: it is counted over the rounds. sourcesTurn: the last key
	// that was taken for a lane was ready.
	turn        int
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
func (r *round) place() *[NumLanes + 1]Lane { return &places[r.turn] }

// fill is called when an operation got the next place.
func (r *round) fill() {
	r.left--
	r.turn = (r.turn + 1) % len(places)
}

// giveBack is called for an operation that got a place and is not run.
func (r *round) giveBack() {
	r.left++
	r.passedOver++
	r.turn = (r.turn + len(places) - 1) % len(places)
}
