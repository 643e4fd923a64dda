// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// figures holds for each object what has been passed to the metrics. A nil *figures does nothing.
type figures struct {
	metrics Metrics
	kind    string

	mu    sync.Mutex
	byKey map[object.Key]*figure
}

// figure is the record of one object.
type figure struct {
	state State
	// wanted is when the object was first desired, deletion when the deletion of the removed row was first
	// tried, and asWanted when the resource was last observed as up to date.
	wanted, deletion, asWanted time.Time
	// reconciled and ready report whether the first time was passed to the metrics.
	reconciled, ready bool
}

func newFigures(m Metrics, kind string) *figures {
	return &figures{metrics: m, kind: kind, byKey: map[object.Key]*figure{}}
}

// of returns the record of an object, and makes it if there is none. mu must be held.
func (f *figures) of(key object.Key) *figure {
	g := f.byKey[key]
	if g == nil {
		g = &figure{}
		f.byKey[key] = g
	}
	return g
}

// begun records since when an object is wanted, unless that is known. The row is in the table, so no
// deletion of a removed row is going on.
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

// ended counts an object in the state after its pass. For a paused object began is false: its first
// time is not measured yet.
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

// count passes a change of state on. mu must be held, so that changes are passed on in order.
func (f *figures) count(g *figure, is State) {
	if was := g.state; was != is {
		g.state = is
		f.metrics.Observed(f.kind, was, is)
	}
}

// asWanted records that the resource is up to date.
func (f *figures) asWanted(key object.Key, now time.Time) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(key).asWanted = now
}

// repaired passes a drift on, if the resource was observed as up to date before.
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

// exists reports whether the resource existed when it was last observed.
func (f *figures) exists(key object.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.byKey[key]
	return g != nil && g.state.Exists
}

// deletion returns when the deletion of a removed row was first tried.
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

// deleted passes on that an object is gone, and drops its record.
func (f *figures) deleted(key object.Key, after time.Duration) {
	if f == nil {
		return
	}
	f.metrics.Deleted(f.kind, after)
	f.forget(key)
}

// forget stops counting an object.
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
