// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package progress

import (
	"context"
	"math"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/status"
)

// Progress is how far a loop has come with a table, for others to wait for. T is what a wait
// delivers. A wait is for a revision, and ends when that is reached, not whenever something moves: it
// costs the loop nothing until then. The zero value is ready for use. All methods are safe from any
// goroutine.
//
// A row that was pending when a wait began may be written again before the loop looks at it,
// by another reconciler for example. Say the wait is for revision 10 and the row is at 7; then
// it is written again, with the same status ID, at 15, and main takes a snapshot at 20. Main
// comes past 10 without the row. So the wait goes on until main is past 20, the end of that
// snapshot, which has all rows that were pending. And the row is owed from 10 on, so that
// Applied waits for it, but not for another that was written at 15: see [marks].
type Progress[T any] struct {
	mu           sync.Mutex
	revision     statedb.Revision
	lowWatermark statedb.Revision
	// wanted is the revision of the last change that was to be acted on, of those up to
	// revision.
	wanted statedb.Revision
	// placed are the waits for a place, ordered by that, owing those that are past it and
	// wait for what is owed up to their revision.
	placed, owing keyheap.Heap[*Wait[T]]
	// joined are the waits for a place that began when the table had a later revision than
	// main's snapshot.
	joined map[*Wait[T]]struct{}
	// pending are the marks of those, and reading the marks for the rows of the snapshot.
	pending, reading marks
	// listed says that pending has all that joined, marked that there may be marks.
	listed, marked bool
}

// Wait is the wait of one goroutine for a revision. Its exported fields are set before [Progress.Join].
type Wait[T any] struct {
	// Until is the revision, Milestone what its changes must have reached.
	Until     statedb.Revision
	Milestone Milestone
	// All sets Until to the revision of the table when the wait begins.
	All bool
	// Detailed: the one who waits asks what is owed.
	Detailed bool
	// Reached delivers once what the goroutine of the loop sends when the wait is over.
	Reached chan T

	// from is the revision of the table when the wait began, id is higher than that of any
	// status that was made before: they are given out in order.
	from statedb.Revision
	id   uint64
	// place is that of main that it waits for, past says that it is over. Nothing may be
	// owed up to owed.
	place, owed statedb.Revision
	past        bool
	pos         int
}

// NewWait returns a wait that has not begun.
func NewWait[T any](until statedb.Revision, m Milestone) *Wait[T] {
	return &Wait[T]{
		Until: until, Milestone: m, Reached: make(chan T, 1),
		id: status.Pending().ID, place: until, owed: until, pos: -1,
	}
}

// HeapPos is for package keyheap.
func (w *Wait[T]) HeapPos() int { return w.pos }

// SetHeapPos is for package keyheap.
func (w *Wait[T]) SetHeapPos(pos int) { w.pos = pos }

// over reports whether a wait is. It is called under the lock, as are settled, push and drop.
func (p *Progress[T]) over(w *Wait[T]) bool {
	return p.revision >= w.place && p.settled(w)
}

// settled reports whether nothing is owed that a wait is for.
func (p *Progress[T]) settled(w *Wait[T]) bool {
	return w.Milestone == Attempted || p.lowWatermark == 0 || p.lowWatermark > w.owed
}

// push makes a wait that is not over wait for its place, or for what is owed.
func (p *Progress[T]) push(w *Wait[T]) {
	if w.past = p.revision >= w.place; w.past {
		p.owing.Push(w, priority(w.owed))
	} else {
		p.placed.Push(w, priority(w.place))
	}
}

func priority(revision statedb.Revision) int64 { return int64(min(revision, math.MaxInt64)) }

// drop makes a wait wait for nothing.
func (p *Progress[T]) drop(w *Wait[T]) {
	switch {
	case w.pos < 0:
	case w.past:
		p.owing.Remove(w)
	default:
		p.placed.Remove(w)
	}
	delete(p.joined, w)
}

// Publish sets the revision up to which every change has been attempted, which never
// goes back, and the low watermark. wanted is the revision of the last change that was to be
// acted on. It returns the waits that are over.
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
	for w, _, ok := p.owing.Min(); ok && p.settled(w); w, _, ok = p.owing.Min() {
		p.drop(w)
		over = append(over, w)
	}
	return over
}

// Join begins a wait, unless its milestone is reached already. table returns the revision of
// the table: it is called under the lock, so that main's snapshot is no later than that.
// lowWatermark is the one of that moment.
func (p *Progress[T]) Join(w *Wait[T], table func() statedb.Revision) (reached bool, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.from = table()
	if w.All {
		w.Until, w.place, w.owed = w.from, w.from, w.from
	}
	if reached = p.over(w); !reached {
		p.push(w)
		if !w.past {
			if p.joined == nil {
				p.joined = map[*Wait[T]]struct{}{}
			}
			p.joined[w] = struct{}{}
			p.listed = false
			p.marked = true
		}
	}
	return reached, p.lowWatermark
}

// Took notes that main has taken a snapshot after the end of another. Waits for a revision
// between the two wait for its end, unless nothing was written since they began.
func (p *Progress[T]) Took(last, snapshot statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var m marks
	p.pending, p.listed = nil, true
	for w := range p.joined {
		if w.from > snapshot {
			// It began after the snapshot was taken: it is for the next.
			p.listed = false
			continue
		}
		delete(p.joined, w)
		if w.Until <= last || w.Until >= snapshot || w.from == snapshot {
			continue
		}
		p.drop(w)
		w.place = snapshot
		p.push(w)
		m = append(m, mark{w.id, w.from, w.Until})
	}
	p.reading = m.few()
	p.marked = len(m)+len(p.joined) > 0
}

// Marked reports whether Since may return another revision than it is given, for rows of a
// transaction that was begun before the call: a wait that begins later is for none of these.
func (p *Progress[T]) Marked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marked
}

// Since returns from which revision on a row is owed that has a status of the given ID, and
// that main found in its snapshot; ahead: that was found ahead of main, in the table.
func (p *Progress[T]) Since(id uint64, revision statedb.Revision, ahead bool) statedb.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.reading.since(id, revision)
	if !ahead {
		return since
	}
	if !p.listed {
		p.listed, p.pending = true, nil
		for w := range p.joined {
			p.pending = append(p.pending, mark{w.id, w.from, w.Until})
		}
		p.pending = p.pending.few()
	}
	return min(since, p.pending.since(id, revision))
}

// Reached reports whether the milestone of a wait is.
func (p *Progress[T]) Reached(w *Wait[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over(w)
}

// Leave ends a wait, if it is not over.
func (p *Progress[T]) Leave(w *Wait[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(w)
}

// Waiting returns how many waits have begun and are not over.
func (p *Progress[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.placed.Len() + p.owing.Len()
}

// Now returns the revision up to which every change has been attempted, and the low watermark.
func (p *Progress[T]) Now() (revision, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.lowWatermark
}

// Await blocks until everything up to a revision has been attempted or ctx ends, and
// returns how far that is and the low watermark then. How far: the revision up to which
// everything was attempted, but if something is not reconciled no more than was asked for,
// or than the last change that was to be acted on, so that one failed attempt at revision r
// is told as r, not as that of the status which says so.
// table is as for Join.
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
