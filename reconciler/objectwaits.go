// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/keyheap"
)

// objectWait waits for a key to come to a milestone that no row tells: the row is gone, or
// its change is not being attempted, which leaves the status as it is.
type objectWait[Obj any] struct {
	object    Obj
	milestone Milestone
	// deleted: the table did not have the key, at that revision; else it is that of
	// the row.
	deleted  bool
	revision statedb.Revision
	// met is closed when the milestone is reached, or, for a deletion, when the key has
	// been inserted again: then inserted says so.
	met      chan struct{}
	inserted bool

	key string
	// ran: an operation has ended on the deletion of the key or on what came after that;
	// guarded by the lock, as is the place in the heap.
	ran bool
	pos int
}

func (w *objectWait[Obj]) HeapPos() int       { return w.pos }
func (w *objectWait[Obj]) SetHeapPos(pos int) { w.pos = pos }

// objectWaits are looked at when something happens to their key. While there is none, nobody
// asks for a key.
type objectWaits[Obj comparable] struct {
	some atomic.Int64

	mu    sync.Mutex
	byKey map[string]map[*objectWait[Obj]]struct{}
	// fresh have not been looked at. unseen are those whose revision had not been
	// looked at then, in the order of these.
	fresh  map[*objectWait[Obj]]struct{}
	unseen keyheap.Heap[*objectWait[Obj]]

	// touched are keys that this round put aside without an operation. They belong to the
	// goroutine of the loop.
	touched []string
}

// add begins a wait. Safe from any goroutine, as is remove; the rest is for that of the loop.
func (k *objectWaits[Obj]) add(w *objectWait[Obj], key string) {
	w.key, w.pos, w.met = key, -1, make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey == nil {
		k.byKey, k.fresh = map[string]map[*objectWait[Obj]]struct{}{}, map[*objectWait[Obj]]struct{}{}
	}
	if k.byKey[key] == nil {
		k.byKey[key] = map[*objectWait[Obj]]struct{}{}
	}
	k.byKey[key][w] = struct{}{}
	k.fresh[w] = struct{}{}
	k.some.Add(1)
}

// remove ends a wait, if it is not over.
func (k *objectWaits[Obj]) remove(w *objectWait[Obj]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(w)
}

func (k *objectWaits[Obj]) drop(w *objectWait[Obj]) {
	waits := k.byKey[w.key]
	if _, has := waits[w]; !has {
		return
	}
	if delete(waits, w); len(waits) == 0 {
		delete(k.byKey, w.key)
	}
	delete(k.fresh, w)
	if w.pos >= 0 {
		k.unseen.Remove(w)
	}
	k.some.Add(-1)
}

// begin looks at the waits that have come since the last call.
func (k *objectWaits[Obj]) begin(l *Loop[Obj]) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.fresh {
		delete(k.fresh, w)
		if !k.look(l, w) && w.revision > l.observer.Revision() {
			k.unseen.Push(w, int64(min(w.revision, math.MaxInt64)))
		}
	}
}

// noting returns paused, such that it is noted which objects are.
func (k *objectWaits[Obj]) noting(l *Loop[Obj], paused func(Obj) bool) func(Obj) bool {
	if paused == nil {
		return nil
	}
	return func(object Obj) bool {
		is := paused(object)
		if is {
			k.touch(l, object)
		}
		return is
	}
}

// touch notes that an object was put aside.
func (k *objectWaits[Obj]) touch(l *Loop[Obj], object Obj) {
	if k.some.Load() > 0 {
		k.touched = append(k.touched, string(l.rows.Key(object)))
	}
}

// settled looks at the waits for the keys of a batch that was settled.
func (k *objectWaits[Obj]) settled(l *Loop[Obj], b *batch[Obj]) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range b.tasks {
		t := &b.tasks[i]
		for w := range k.byKey[string(l.rows.Key(b.tasks[i].Row))] {
			w.ran = w.ran || t.Deleted || t.Revision > w.revision
			k.look(l, w)
		}
	}
}

// round looks at the waits for keys that a round put aside, and for what it has observed.
func (k *objectWaits[Obj]) round(l *Loop[Obj]) {
	if k.some.Load() == 0 {
		k.touched = k.touched[:0]
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.touched {
		for w := range k.byKey[key] {
			k.look(l, w)
		}
	}
	k.touched = k.touched[:0]
	for {
		w, revision, ok := k.unseen.Min()
		if !ok || statedb.Revision(revision) > l.observer.Revision() {
			return
		}
		k.unseen.Remove(w)
		k.look(l, w)
	}
}

// look ends a wait whose milestone is reached, and reports whether it is.
func (k *objectWaits[Obj]) look(l *Loop[Obj], w *objectWait[Obj]) bool {
	if !l.reached(w) {
		return false
	}
	k.drop(w)
	close(w.met)
	return true
}

// reached reports whether a key has come to the milestone of a wait, or been inserted again.
func (l *Loop[Obj]) reached(w *objectWait[Obj]) bool {
	d, owed := l.core.DebtOf(w.object)
	if !w.deleted {
		return owed && d.Revision >= w.revision && attempted(&d)
	}
	switch {
	case !owed:
		return w.ran || l.observer.Revision() >= w.revision
	case d.Deleted:
		return w.milestone == Attempted && attempted(&d)
	}
	w.inserted = d.Revision > w.revision
	return w.inserted
}

// attempted reports whether a debt counts as attempted.
func attempted[Obj any](d *core.Debt[Obj]) bool { return d.Tried || d.State == core.Paused }
