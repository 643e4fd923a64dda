// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package progress publishes how far a loop has got with a table, and has the waits for revisions.
//
// The state of a [Progress] is the published revisions and the waits. The loop's goroutine publishes
// at the end of a pass and sends to the waits that are over. Callers join, wait and leave on any
// goroutine. The package never reads the table or the core.
package progress

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/status"
)

// Milestone is what the changes of a wait must have reached. See reconciler.Milestone.
type Milestone uint8

// The milestones, and their number.
const (
	Attempted Milestone = iota
	Applied
	NumMilestones
)

var milestoneNames = [NumMilestones]string{"attempted", "applied"}

// String returns the milestone's name in lower case.
func (m Milestone) String() string {
	if m >= NumMilestones {
		return fmt.Sprintf("milestone %d", uint8(m))
	}
	return milestoneNames[m]
}

// Progress is how far a loop has got with a table. A wait is for a revision, and costs the loop
// nothing until that revision is reached. T is the type of the value that a wait delivers. The zero
// value is ready for use. All methods are safe from any goroutine.
//
// A row that was pending when a wait began may be written again before the loop observes it, by
// another reconciler for example. Say the wait is for revision 10 and the row is at 7. Then the row
// is written again at 15, with the same status ID, and the main cursor takes a snapshot at 20. The
// main cursor passes 10 without the row. So the wait goes on until the main cursor has passed 20, the
// end of that snapshot, which contains all rows that were pending. Also, the row counts as
// unreconciled since 10, so that Applied waits for it, but not for another row that was written at
// 15: see [windows].
type Progress[T any] struct {
	mu           sync.Mutex
	revision     statedb.Revision
	lowWatermark statedb.Revision
	// wanted is the revision of the last change up to revision that asked for an operation.
	wanted statedb.Revision
	// placed are the waits for a place of the main cursor, in the order of these places. applying are
	// the waits that are past their place, and wait until nothing up to their revision is unreconciled.
	placed, applying keyheap.Heap[*Wait[T]]
	// joined are the waits in placed that began when the table's revision was later than the main
	// cursor's snapshot.
	joined map[*Wait[T]]struct{}
	// pending are the windows of joined; nil if they were not listed since one began. reading are the windows for the
	// rows of the current snapshot.
	pending, reading windows
}

// Wait is the wait of one goroutine for a revision. Set the exported fields before [Progress.Join].
type Wait[T any] struct {
	// Until is the revision of the wait. All changes up to it must reach Milestone.
	Until     statedb.Revision
	Milestone Milestone
	// All sets Until to the revision of the table when the wait begins.
	All bool
	// Detailed: the caller also wants to know which keys are not reconciled.
	Detailed bool
	// Reached delivers one value, which the goroutine of the loop sends when the wait is over.
	Reached chan T

	// from is the revision of the table when the wait began. id is higher than that of any status
	// that was made before: IDs are given out in order.
	from statedb.Revision
	id   uint64
	// place is the revision that the main cursor has to pass. A wait for Applied then goes on until nothing is
	// unreconciled since Until or before. in is the heap that has the wait, at pos.
	place statedb.Revision
	in    *keyheap.Heap[*Wait[T]]
	pos   int
}

// NewWait returns a wait that has not begun.
func NewWait[T any](until statedb.Revision, m Milestone) *Wait[T] {
	return &Wait[T]{
		Until: until, Milestone: m, Reached: make(chan T, 1),
		id: status.Pending().ID, place: until, pos: -1,
	}
}

// HeapPos is for package keyheap.
func (w *Wait[T]) HeapPos() int { return w.pos }

// SetHeapPos is for package keyheap.
func (w *Wait[T]) SetHeapPos(pos int) { w.pos = pos }

// settled reports whether a wait that is past its place has reached its milestone. The caller holds mu, as for push
// and drop.
func (p *Progress[T]) settled(w *Wait[T]) bool {
	return w.Milestone == Attempted || p.lowWatermark == 0 || p.lowWatermark > w.Until
}

// push adds a wait that is not over to its heap.
func (p *Progress[T]) push(w *Wait[T]) {
	revision := w.place
	if w.in = &p.placed; p.revision >= w.place {
		w.in, revision = &p.applying, w.Until
	}
	w.in.Push(w, priority(revision))
}

func priority(revision statedb.Revision) int64 { return int64(min(revision, math.MaxInt64)) }

// drop removes a wait from its heap.
func (p *Progress[T]) drop(w *Wait[T]) {
	if w.pos >= 0 {
		w.in.Remove(w)
	}
	delete(p.joined, w)
}

// Publish sets the revision up to which every change has been attempted, which never decreases, and
// the low watermark. wanted is the revision of the last change that asked for an operation. Publish
// removes and returns the waits that are over.
func (p *Progress[T]) Publish(revision, lowWatermark, wanted statedb.Revision) (over []*Wait[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision, p.lowWatermark = max(revision, p.revision), lowWatermark
	if wanted <= p.revision {
		p.wanted = wanted
	}
	for w, at, ok := p.placed.Min(); ok && at <= priority(p.revision); w, at, ok = p.placed.Min() {
		p.drop(w)
		if p.settled(w) {
			over = append(over, w)
		} else {
			p.push(w)
		}
	}
	for w, _, ok := p.applying.Min(); ok && p.settled(w); w, _, ok = p.applying.Min() {
		p.drop(w)
		over = append(over, w)
	}
	return over
}

// Join begins a wait unless its milestone is reached already, and returns the low watermark. table
// returns the revision of the table. Join calls it under the lock, so that the main cursor's snapshot
// is no later.
func (p *Progress[T]) Join(w *Wait[T], table func() statedb.Revision) (reached bool, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.from = table()
	if w.All {
		w.Until, w.place = w.from, w.from
	}
	if reached = p.revision >= w.place && p.settled(w); !reached {
		p.push(w)
		if w.in == &p.placed {
			if p.joined == nil {
				p.joined = map[*Wait[T]]struct{}{}
			}
			p.joined[w] = struct{}{}
			p.pending = nil
		}
	}
	return reached, p.lowWatermark
}

// NoteSnapshot records that the main cursor has taken a snapshot after the end of the last one, both
// given by their revisions. Waits for a revision between the two then wait for the end of the new
// snapshot, unless nothing was written since they began.
func (p *Progress[T]) NoteSnapshot(last, snapshot statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var m windows
	p.pending = nil
	for w := range p.joined {
		if w.from > snapshot {
			// It began after the snapshot was taken, and belongs to the next.
			continue
		}
		delete(p.joined, w)
		if w.Until <= last || w.Until > snapshot {
			continue
		}
		if w.Until < snapshot && w.from < snapshot {
			p.drop(w)
			w.place = snapshot
			p.push(w)
		}
		// A key of the snapshot may be read in a later version of its row, from the table.
		m = append(m, window{w.id, w.from, w.Until})
	}
	p.reading = m.few()
}

// HasWindows reports whether Since may return another revision than its argument, for rows of a
// transaction that was begun before this call. Waits that begin later do not concern these rows.
func (p *Progress[T]) HasWindows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reading)+len(p.joined) > 0
}

// Since returns the revision since which a row counts as not reconciled, whose change was read in the main
// cursor's snapshot or in the table, ahead of the main cursor. id is the ID of its status.
func (p *Progress[T]) Since(id uint64, revision statedb.Revision) statedb.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil {
		for w := range p.joined {
			p.pending = append(p.pending, window{w.id, w.from, w.Until})
		}
		p.pending = p.pending.few()
	}
	return min(p.reading.since(id, revision), p.pending.since(id, revision))
}

// Leave ends a wait that has begun, and reports whether it had reached its milestone before.
func (p *Progress[T]) Leave(w *Wait[T]) (reached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reached = w.pos < 0
	p.drop(w)
	return reached
}

// Waiting returns how many waits have begun and are not over.
func (p *Progress[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.placed.Len() + p.applying.Len()
}

// Now returns the revision up to which every change has been attempted, and the low watermark.
func (p *Progress[T]) Now() (revision, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.lowWatermark
}

// Await blocks until everything up to a revision has been attempted, or until ctx ends; then it
// returns the error of ctx. It returns the revision up to which everything was attempted, and the low
// watermark at that time. If something is not reconciled, the returned revision is instead the higher
// of until and the revision of the last change that asked for an operation. So after a failed attempt
// at revision r it is r, and not the revision of the status write that records the failure. table is
// as for Join.
func (p *Progress[T]) Await(ctx context.Context, until statedb.Revision, table func() statedb.Revision) (revision, lowWatermark statedb.Revision, err error) {
	w := NewWait[T](until, Attempted)
	if reached, _ := p.Join(w, table); !reached {
		select {
		case <-w.Reached:
		case <-ctx.Done():
			p.Leave(w)
			err = ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	revision = p.revision
	if err == nil && p.lowWatermark > 0 {
		revision = max(until, p.wanted)
	}
	return revision, p.lowWatermark, err
}
