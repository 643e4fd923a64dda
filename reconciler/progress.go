// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"math"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
)

// progress publishes how far a reconciler has come, for others to wait for. Whoever waits
// does so for a revision, and is woken when that is reached, not whenever something moves:
// those who wait cost the loop nothing until then.
type progress[Obj any] struct {
	mu           sync.Mutex
	revision     statedb.Revision
	lowWatermark statedb.Revision
	// waits are ordered by the revision that they are for.
	waits [numMilestones]keyheap.Heap[*revisionWait[Obj]]
}

// revisionWait is the wait of one goroutine for a revision.
type revisionWait[Obj any] struct {
	until     statedb.Revision
	milestone Milestone
	// detailed: whoever waits wants to know what is owed.
	detailed bool
	// reached delivers once, when the milestone is reached.
	reached chan account[Obj]
	pos     int
}

func newRevisionWait[Obj any](until statedb.Revision, m Milestone) *revisionWait[Obj] {
	return &revisionWait[Obj]{until: until, milestone: m, reached: make(chan account[Obj], 1), pos: -1}
}

func (w *revisionWait[Obj]) HeapPos() int       { return w.pos }
func (w *revisionWait[Obj]) SetHeapPos(pos int) { w.pos = pos }

// at returns the revision up to which a milestone is reached. It is called under the lock.
func (p *progress[Obj]) at(m Milestone) statedb.Revision {
	if m == Applied && p.lowWatermark > 0 {
		return min(p.revision, p.lowWatermark-1)
	}
	return p.revision
}

// publish sets the revision up to which every change has been attempted, which never
// goes back, and the low watermark. It returns the waits that are over.
func (p *progress[Obj]) publish(revision, lowWatermark statedb.Revision) (over []*revisionWait[Obj]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision, p.lowWatermark = max(revision, p.revision), lowWatermark
	for m := range p.waits {
		at := p.at(Milestone(m))
		for {
			w, _, ok := p.waits[m].Min()
			if !ok || w.until > at {
				break
			}
			p.waits[m].Remove(w)
			over = append(over, w)
		}
	}
	return over
}

// join begins a wait, unless its milestone is reached already. lowWatermark is the one of
// that moment.
func (p *progress[Obj]) join(w *revisionWait[Obj]) (reached bool, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reached = p.at(w.milestone) >= w.until; !reached {
		p.waits[w.milestone].Push(w, int64(min(w.until, math.MaxInt64)))
	}
	return reached, p.lowWatermark
}

// reached reports whether the milestone of a wait is.
func (p *progress[Obj]) reached(w *revisionWait[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at(w.milestone) >= w.until
}

// leave ends a wait, if it is not over.
func (p *progress[Obj]) leave(w *revisionWait[Obj]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.pos >= 0 {
		p.waits[w.milestone].Remove(w)
	}
}

func (p *progress[Obj]) now() (revision, lowWatermark statedb.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.lowWatermark
}

// wait blocks until everything up to a revision has been attempted or ctx ends, and
// returns how far that is and the low watermark then.
func (p *progress[Obj]) wait(ctx context.Context, until statedb.Revision) (revision, lowWatermark statedb.Revision, err error) {
	w := newRevisionWait[Obj](until, Attempted)
	if reached, _ := p.join(w); !reached {
		select {
		case <-w.reached:
		case <-ctx.Done():
			p.leave(w)
			err = ctx.Err()
		}
	}
	revision, lowWatermark = p.now()
	return revision, lowWatermark, err
}
