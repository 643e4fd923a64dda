// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/metrics"
)

// KindFigures holds the figures of all objects of a kind. All durations are in seconds.
type KindFigures struct {
	// Since is when the first figure of the kind was recorded.
	Since time.Time
	// Objects counts the known objects: they have had a pass and are not gone. Existing counts those
	// whose external resource existed when it was last observed; Ready and Synced count those with that
	// condition True.
	Objects, Existing, Ready, Synced int
	// FirstReconcile holds for each object the time from being first desired to the end of the first
	// pass, FirstReady the time until it was first ready.
	FirstReconcile, FirstReady metrics.Histogram
	// Deletion holds the time from the request of a deletion until the object was gone.
	Deletion metrics.Histogram
	// Drift holds for each repaired drift the upper bound of its age.
	Drift metrics.Histogram
}

// clone returns a copy that shares nothing with f.
func (f *KindFigures) clone() KindFigures {
	c := *f
	c.FirstReconcile, c.FirstReady = f.FirstReconcile.Clone(), f.FirstReady.Clone()
	c.Deletion, c.Drift = f.Deletion.Clone(), f.Drift.Clone()
	return c
}

// count adds the change of one object's state. Objects are counted as they change: no table is read for
// it, and no row stores whether its external resource exists.
func (f *KindFigures) count(was, is State) {
	f.Objects += difference(was.Known, is.Known)
	f.Existing += difference(was.Exists, is.Exists)
	f.Ready += difference(was.Ready, is.Ready)
	f.Synced += difference(was.Synced, is.Synced)
}

// difference returns how much a count changes: 1, 0 or -1.
func difference(was, is bool) int {
	switch {
	case is && !was:
		return 1
	case was && !is:
		return -1
	}
	return 0
}

// Book is a [Metrics] that stores the figures of each kind, for [Book.Figures]. A call costs a lock and
// an addition; memory grows with the number of kinds, not of objects. The figures of several
// reconcilers with the same kind are added up. The zero value is empty and ready for use. It is safe
// for concurrent use, and must not be copied.
type Book struct {
	mu     sync.Mutex
	byKind map[string]*KindFigures
}

var _ Metrics = (*Book)(nil)

// FirstReconciled adds to FirstReconcile of the kind.
func (b *Book) FirstReconciled(kind string, after time.Duration) {
	b.note(kind, func(f *KindFigures) { f.FirstReconcile.Observe(after.Seconds()) })
}

// FirstReady adds to FirstReady of the kind.
func (b *Book) FirstReady(kind string, after time.Duration) {
	b.note(kind, func(f *KindFigures) { f.FirstReady.Observe(after.Seconds()) })
}

// Deleted adds to Deletion of the kind.
func (b *Book) Deleted(kind string, after time.Duration) {
	b.note(kind, func(f *KindFigures) { f.Deletion.Observe(after.Seconds()) })
}

// Drift adds to Drift of the kind.
func (b *Book) Drift(kind string, age time.Duration) {
	b.note(kind, func(f *KindFigures) { f.Drift.Observe(age.Seconds()) })
}

// Observed changes the counts of the kind by the difference of the states.
func (b *Book) Observed(kind string, was, is State) {
	b.note(kind, func(f *KindFigures) { f.count(was, is) })
}

func (b *Book) note(kind string, change func(f *KindFigures)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.byKind[kind]
	if f == nil {
		f = &KindFigures{Since: time.Now()}
		if b.byKind == nil {
			b.byKind = map[string]*KindFigures{}
		}
		b.byKind[kind] = f
	}
	change(f)
}

// Figures returns the figures of each kind that has any. The result is a copy that the caller owns.
func (b *Book) Figures() map[string]KindFigures {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]KindFigures, len(b.byKind))
	for kind, f := range b.byKind {
		all[kind] = f.clone()
	}
	return all
}

// Forget drops the figures of a kind; it does nothing if there are none. Call it when a program has
// stopped one reconciler and before it starts another one of the same kind: the new one counts the same
// objects again.
func (b *Book) Forget(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKind, kind)
}
