// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
)

const (
	// together is how long before its time a row is handed over with another one, if operations are
	// single. It bounds how often the refresher wakes up. It is at most the interval divided by
	// togetherPart.
	together     = 10 * time.Millisecond
	togetherPart = 64
)

// hander refreshes rows by handing them to the loop. It only reads the table.
type hander[Obj any] struct {
	rows    *rows.Rows[Obj]
	hand    func(rows []Row[Obj], at statedb.Revision) (taken <-chan struct{})
	batches bool
	all     *walkCall[Obj]
	gate    *gate

	interval time.Duration
	lap      lap
	// lapped: the last batch was part of the lap, not of a request.
	lapped bool
}

func (h *hander[Obj]) begin(set Settings) {
	h.interval = set.Interval
	h.lap.setInterval(time.Now(), set.Interval)
}

// collect lets the lap and a request take turns, so that neither has to wait for the end of the
// other.
func (h *hander[Obj]) collect(size int) (b batch[Obj], next time.Duration) {
	if h.lapped {
		h.lapped = false
		if b = h.collectCalled(size); len(b.rows) > 0 {
			return b, 0
		}
	}
	if b, next = h.collectLap(size); len(b.rows) > 0 {
		h.lapped = true
		return b, 0
	}
	return h.collectCalled(size), next
}

func (h *hander[Obj]) collectCalled(size int) batch[Obj] {
	return h.all.collect(h.rows, size, func(w *walk[Obj], row Row[Obj]) bool { return row.Revision <= w.upTo })
}

// collectLap returns the next rows of the lap that are due, at most size. If operations come in
// batches, a batch is due when its last row is. If no row is due, it returns the time until one is.
func (h *hander[Obj]) collectLap(size int) (b batch[Obj], next time.Duration) {
	if h.interval == 0 {
		return b, 0
	}
	txn, now := h.rows.DB.ReadTxn(), time.Now()
	if h.lap.mayFollow(now) {
		h.lap = h.lap.following(now, h.interval, h.rows.Table.Revision(txn), h.rows.Table.NumObjects(txn))
	}
	if h.lap.over {
		return b, h.lap.end.Sub(now)
	}
	first, until := 1, now.Add(min(together, h.interval/togetherPart))
	if h.batches {
		first, until = size, h.lap.end
	}
	if wait := h.lap.dueAt(first).Sub(now); wait > 0 {
		return b, wait
	}
	// The lap is over if the iteration is not left because the batch is full.
	seen, over := h.lap.seen, true
	b.at = h.rows.Table.Revision(txn)
	for object, revision := range h.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](seen+1)) {
		if revision > h.lap.upTo {
			break
		}
		b.rows, seen = append(b.rows, Row[Obj]{object, revision}), revision
		if len(b.rows) == size || h.lap.dueAt(len(b.rows)+1).After(until) {
			over = false
			break
		}
	}
	after := h.lap.after(len(b.rows), seen, over)
	b.advance = func() { h.lap = after }
	if len(b.rows) == 0 {
		// The rows that were left have changed or are gone.
		b.advance()
		return h.collectLap(size)
	}
	return b, 0
}

func (h *hander[Obj]) give(b batch[Obj]) <-chan struct{} {
	return h.gate.hand(func() <-chan struct{} { return h.hand(b.rows, b.at) })
}
