// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// figures remember of each object what metrics are told of. A nil *figures does nothing.
type figures struct {
	metrics Metrics
	kind    string

	mu    sync.Mutex
	byKey map[object.Key]*figure
}

// figure is what is remembered of one object.
type figure struct {
	state State
	// wanted is when the object was first seen, deletion when its forced deletion was, and
	// asWanted when its resource was last seen as it should be.
	wanted, deletion, asWanted time.Time
	// reconciled, ready: the first time has been told.
	reconciled, ready bool
}

func newFigures(m Metrics, kind string) *figures {
	return &figures{metrics: m, kind: kind, byKey: map[object.Key]*figure{}}
}

// of returns the figure of an object, which is made if there is none. mu is held.
func (f *figures) of(key object.Key) *figure {
	g := f.byKey[key]
	if g == nil {
		g = &figure{}
		f.byKey[key] = g
	}
	return g
}

// begun notes that an object is wanted, at the latest since then. A row that is there is not being
// deleted by force, or not any more.
func (f *figures) begun(key object.Key, wanted time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.of(key)
	if g.wanted.IsZero() {
		g.wanted = wanted
	}
	g.deletion = time.Time{}
}

// ended counts an object as its pass left it. One that is paused is counted as its conditions say,
// but its first time is still to come: began is false.
func (f *figures) ended(key object.Key, is State, began bool, now time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.of(key)
	if began && !g.reconciled {
		g.reconciled = true
		f.metrics.FirstReconciled(f.kind, now.Sub(g.wanted))
	}
	if began && is.Ready && !g.ready {
		g.ready = true
		f.metrics.FirstReady(f.kind, now.Sub(g.wanted))
	}
	f.count(g, is)
}

// count tells how an object is counted. mu is held, so that the differences are told in order.
func (f *figures) count(g *figure, is State) {
	if was := g.state; was != is {
		g.state = is
		f.metrics.Observed(f.kind, was, is)
	}
}

// asWanted notes that the resource is as it should be.
func (f *figures) asWanted(key object.Key, now time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(key).asWanted = now
}

// repaired tells of a drift, if the resource has been as it should be before.
func (f *figures) repaired(key object.Key, now time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.of(key); !g.asWanted.IsZero() {
		f.metrics.Drift(f.kind, now.Sub(g.asWanted))
		g.asWanted = now
	}
}

// exists returns whether the resource existed when it was observed last.
func (f *figures) exists(key object.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.byKey[key]
	return g != nil && g.state.Exists
}

// deletion returns when the forced deletion of an object was tried first.
func (f *figures) deletion(key object.Key, now time.Time) time.Time {
	if f == nil {
		return now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.of(key)
	if g.deletion.IsZero() {
		g.deletion = now
	}
	return g.deletion
}

// deleted tells that an object is gone, and forgets it.
func (f *figures) deleted(key object.Key, after time.Duration) {
	if f == nil {
		return
	}
	f.metrics.Deleted(f.kind, after)
	f.forget(key)
}

// forget counts an object no more.
func (f *figures) forget(key object.Key) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.byKey[key]; g != nil {
		f.count(g, State{})
		delete(f.byKey, key)
	}
}
