// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"fmt"
	"sync/atomic"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// tally counts the calls for each row, and the most operations that ran at a time.
type tally struct {
	calls   []atomic.Uint32
	running atomic.Int64
	most    atomic.Int64
	// ended counts the calls that have ended. A run that checks the tally waits for ended: the target counts a
	// call before the tally does.
	ended subject.Counter
}

// tallied makes the target do work for each Update, and returns a tally of the calls for rows 0 ... n-1.
// There must be no other rows.
func tallied(target *subject.Target, n uint64, work func(id uint64) error) *tally {
	t := newTally(n)
	target.SetRule(t.rule(work))
	return t
}

// newTally returns a tally of the calls for rows 0 ... n-1. Its rule does the counting.
func newTally(n uint64) *tally { return &tally{calls: make([]atomic.Uint32, n)} }

// nothing is an operation that does nothing.
func nothing(uint64) error { return nil }

// rule returns a rule of the target that does work, and counts.
func (t *tally) rule(work func(id uint64) error) func(id uint64) error {
	return func(id uint64) error {
		t.enter(id)
		defer t.leave()
		return work(id)
	}
}

func (t *tally) enter(id uint64) {
	t.calls[id].Add(1)
	running := t.running.Add(1)
	for most := t.most.Load(); running > most; most = t.most.Load() {
		if t.most.CompareAndSwap(most, running) {
			return
		}
	}
}

func (t *tally) leave() {
	t.running.Add(-1)
	t.ended.Add()
}

// inFlight returns the most operations that ran at a time.
func (t *tally) inFlight() uint64 { return uint64(t.most.Load()) }

// spread returns the difference between the most and the fewest calls of a row.
func (t *tally) spread() uint32 {
	least, most := t.calls[0].Load(), t.calls[0].Load()
	for id := range t.calls {
		calls := t.calls[id].Load()
		least, most = min(least, calls), max(most, calls)
	}
	return most - least
}

// worked checks that rows 0 ... n-1 are done, that each had the given number of calls, and that no more
// operations ran at a time than the contender has workers.
func (c *checks) worked(sys subject.System, t *tally, n uint64, calls uint32) {
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.calls(sys, n*uint64(calls), 0)
	c.each("Update", t, n, calls)
	c.atMost("operations at a time", t.inFlight(), uint64(sys.Workers()))
}

// each checks the calls of that kind for rows 0 ... n-1, and names the first row with another number.
func (c *checks) each(kind string, t *tally, n uint64, calls uint32) {
	for id := range n {
		if got := t.calls[id].Load(); got != calls {
			c.equal(fmt.Sprintf("%s calls for row %d", kind, id), uint64(got), uint64(calls))
			return
		}
	}
}
