// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/metrics"
)

// KindFigures are the figures of all objects of a kind. All durations are in seconds.
type KindFigures struct {
	// Since is when the first figure of the kind came.
	Since time.Time
	// Objects is how many are known: they have had a pass, and are not gone. Existing is how
	// many of them have an external resource, as far as it was observed last; Ready and Synced
	// of how many the condition is True.
	Objects, Existing, Ready, Synced int
	// FirstReconcile has the time of each object from being wanted to its first pass, FirstReady
	// the time until it was ready first.
	FirstReconcile, FirstReady metrics.Histogram
	// Deletion has the time from asking for a deletion to the object being gone.
	Deletion metrics.Histogram
	// Drift has a value for each repair of what had changed by itself: the most that the
	// drift can be old.
	Drift metrics.Histogram
}

// clone returns a copy that shares nothing with f.
func (f *KindFigures) clone() KindFigures {
	c := *f
	c.FirstReconcile, c.FirstReady = f.FirstReconcile.Clone(), f.FirstReady.Clone()
	c.Deletion, c.Drift = f.Deletion.Clone(), f.Drift.Clone()
	return c
}

// count counts an object anew. Objects come and go one by one, and so are counted: a table is
// never gone through, and no row tells whether its external resource exists.
func (f *KindFigures) count(was, is State) {
	f.Objects += difference(was.Known, is.Known)
	f.Existing += difference(was.Exists, is.Exists)
	f.Ready += difference(was.Ready, is.Ready)
	f.Synced += difference(was.Synced, is.Synced)
}

// difference is what a count has to grow by.
func difference(was, is bool) int {
	switch {
	case is && !was:
		return 1
	case was && !is:
		return -1
	}
	return 0
}

// Book is a [Metrics] that keeps what it is told, by kind, for [Book.Figures]. To be told costs
// it a lock and an addition, and it needs memory for each kind, not for each object. What several
// reconcilers with one kind tell is added up. The zero value is empty and ready for use. It is
// safe for concurrent use, and must not be copied.
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

// Figures returns the figures of each kind of which there are any. They are a copy, and the
// caller's.
func (b *Book) Figures() map[string]KindFigures {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]KindFigures, len(b.byKind))
	for kind, f := range b.byKind {
		all[kind] = f.clone()
	}
	return all
}

// Forget drops the figures of a kind. It is for a program that stops a reconciler and starts
// another one of the same kind: the new one counts the objects that the old one has counted
// already. Call it between the two. That there are no figures of the kind is no error.
func (b *Book) Forget(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKind, kind)
}
