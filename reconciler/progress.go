// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/status"
)

// progress publishes how far a reconciler has come, for others to wait for. Whoever waits
// does so for a revision, and is woken when that is reached, not whenever something moves:
// those who wait cost the loop nothing until then.
//
// A row that was pending when a wait began may be written again before the loop looks at it,
// by another reconciler for example. Say the wait is for revision 10 and the row is at 7; then
// it is written again, with the same status ID, at 15, and main takes a snapshot at 20. Main
// comes past 10 without the row. So the wait goes on until main is past 20, the end of that
// snapshot, which has all rows that were pending. And the row is owed from 10 on, so that
// Applied waits for it, but not for another that was written at 15: see [marks].
type progress[Obj any] struct {
	mu           sync.Mutex
	revision     statedb.Revision
	lowWatermark statedb.Revision
	// wanted is the revision of the last change that was to be acted on, of those up to
	// revision.
	wanted statedb.Revision
	// placed are the waits for a place, ordered by that, owing those that are past it and
	// wait for what is owed up to their revision.
	placed, owing keyheap.Heap[*revisionWait[Obj]]
	// joined are the waits for a place that began when the table had a later revision than
	// main's snapshot, which is this one.
	joined   map[*revisionWait[Obj]]struct{}
	snapshot statedb.Revision
	// pending are the marks of those, and reading the marks for the rows of the snapshot.
	pending, reading marks
	// listed says that pending has all that joined, marked that there may be marks.
	listed bool
	marked atomic.Bool
}

// revisionWait is the wait of one goroutine for a revision.
type revisionWait[Obj any] struct {
	until     statedb.Revision
	milestone Milestone
	// all: until is the revision of the table when the wait begins.
	all bool
	// from is the revision of the table when the wait began, id is higher than that of any
	// status that was made before: they are given out in order.
	from statedb.Revision
	id   uint64
	// detailed: whoever waits wants to know what is owed.
	detailed bool
	// reached delivers once, when the milestone is reached.
	reached chan account[Obj]

	// place is that of main that it waits for, past says that it is over. Nothing may be
	// owed up to owed.
	place, owed statedb.Revision
	past        bool
	pos         int
}

func newRevisionWait[Obj any](until statedb.Revision, m Milestone) *revisionWait[Obj] {
	return &revisionWait[Obj]{
		until: until, id: status.Pending().ID, milestone: m, place: until, owed: until,
		reached: make(chan account[Obj], 1), pos: -1,
	}
}

func (w *revisionWait[Obj]) HeapPos() int       { return w.pos }
func (w *revisionWait[Obj]) SetHeapPos(pos int) { w.pos = pos }

// over reports whether a wait is. It is called under the lock, as are settled, push and drop.
func (p *progress[Obj]) over(w *revisionWait[Obj]) bool {
	return p.revision >= w.place && p.settled(w)
}

// settled reports whether nothing is owed that a wait is for.
func (p *progress[Obj]) settled(w *revisionWait[Obj]) bool {
	return w.milestone == Attempted || p.lowWatermark == 0 || p.lowWatermark > w.owed
}

// push makes a wait that is not over wait for its place, or for what is owed.
func (p *progress[Obj]) push(w *revisionWait[Obj]) {
	if w.past = p.revision >= w.place; w.past {
		p.owing.Push(w, priority(w.owed))
	} else {
		p.placed.Push(w, priority(w.place))
	}
}

func priority(revision statedb.Revision) int64 { return int64(min(revision, math.MaxInt64)) }

// drop makes a wait wait for nothing.
func (p *progress[Obj]) drop(w *revisionWait[Obj]) {
	switch {
	case w.pos < 0:
	case w.past:
		p.owing.Remove(w)
	default:
		p.placed.Remove(w)
	}
	delete(p.joined, w)
}

// publish sets the revision up to which every change has been attempted, which never
// goes back, and the low watermark. wanted is the revision of the last change that was to be
// acted on. It returns the waits that are over.
func (p *progress[Obj]) publish(revision, lowWatermark, wanted statedb.Revision) (over []*revisionWait[Obj]) {
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

// join begins a wait, unless its milestone is reached already. table returns the revision of
// the table: it is called under the lock, so that main's snapshot is no later than that.
// lowWatermark is the one of that moment.
func (p *progress[Obj]) join(w *revisionWait[Obj], table func() statedb.Revision) (reached bool, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.from = table()
	if w.all {
		w.until, w.place, w.owed = w.from, w.from, w.from
	}
	if reached = p.over(w); !reached {
		p.push(w)
		if !w.past {
			if p.joined == nil {
				p.joined = map[*revisionWait[Obj]]struct{}{}
			}
			p.joined[w] = struct{}{}
			p.listed = false
			p.marked.Store(true)
		}
	}
	return reached, p.lowWatermark
}

// took notes that main has taken a snapshot after the end of another. Waits for a revision
// between the two wait for its end, unless nothing was written since they began.
func (p *progress[Obj]) took(last, snapshot statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var m marks
	p.snapshot, p.pending, p.listed = snapshot, nil, true
	for w := range p.joined {
		if w.from > snapshot {
			// It began after the snapshot was taken: it is for the next.
			p.listed = false
			continue
		}
		delete(p.joined, w)
		if w.until <= last || w.until >= snapshot || w.from == snapshot {
			continue
		}
		p.drop(w)
		w.place = snapshot
		p.push(w)
		m = append(m, mark{w.id, w.from, w.until})
	}
	p.reading = m.few()
	p.marked.Store(len(m)+len(p.joined) > 0)
}

// since returns from which revision on a row is owed that has a status of the given ID, and
// that main found in its snapshot; ahead: that was found ahead of main, in the table.
func (p *progress[Obj]) since(id uint64, revision statedb.Revision, ahead bool) statedb.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.reading.since(id, revision)
	if !ahead {
		return since
	}
	if !p.listed {
		p.listed, p.pending = true, nil
		for w := range p.joined {
			p.pending = append(p.pending, mark{w.id, w.from, w.until})
		}
		p.pending = p.pending.few()
	}
	return min(since, p.pending.since(id, revision))
}

// reached reports whether the milestone of a wait is.
func (p *progress[Obj]) reached(w *revisionWait[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over(w)
}

// leave ends a wait, if it is not over.
func (p *progress[Obj]) leave(w *revisionWait[Obj]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(w)
}

func (p *progress[Obj]) now() (revision, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.lowWatermark
}

// wait blocks until everything up to a revision has been attempted or ctx ends, and
// returns how far that is and the low watermark then. How far: the revision up to which
// everything was attempted, but if something is not reconciled no more than was asked for,
// or than the last change that was to be acted on, so that one failed attempt at revision r
// is told as r, not as that of the status which says so.
// table is as for join.
func (p *progress[Obj]) wait(ctx context.Context, until statedb.Revision, table func() statedb.Revision) (revision, lowWatermark statedb.Revision, err error) {
	w := newRevisionWait[Obj](until, Attempted)
	if reached, _ := p.join(w, table); !reached {
		select {
		case <-w.reached:
		case <-ctx.Done():
			p.leave(w)
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

// marks say of the waits that wait for the end of main's snapshot which rows they are for:
// those that were written since, and whose status was made before.
type marks []mark

// mark is of waits for a revision, until, that began when the table had the revision from. id
// is higher than that of any status made before.
type mark struct {
	id          uint64
	from, until statedb.Revision
}

// maxMarks bounds the marks, as each row of the snapshot is compared with them.
const maxMarks = 64

// few returns marks that cover the same rows, and perhaps some more, if there are many.
func (m marks) few() marks {
	slices.SortFunc(m, func(a, b mark) int { return cmp.Compare(a.id, b.id) })
	for len(m) > maxMarks {
		for i := range len(m) / 2 {
			a, b := m[2*i], m[2*i+1]
			m[i] = mark{b.id, min(a.from, b.from), min(a.until, b.until)}
		}
		if len(m)%2 > 0 {
			m[len(m)/2] = m[len(m)-1]
		}
		m = m[:(len(m)+1)/2]
	}
	return m
}

// since returns from which revision on a row is owed that has a status of the given ID.
func (m marks) since(id uint64, revision statedb.Revision) statedb.Revision {
	since := revision
	for i := range m {
		if id < m[i].id && m[i].from < revision {
			since = min(since, m[i].until)
		}
	}
	return since
}
