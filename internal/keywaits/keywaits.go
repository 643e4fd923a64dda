// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package keywaits has the waits for single keys: for milestones that no row tells. A deletion is
// one, since there is no row, and so is a change that is not being attempted, which leaves the
// status of its row as it is.
package keywaits

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
)

// Debt is what is known of a key that is not reconciled.
type Debt struct {
	// Revision is that of the latest change that was observed.
	Revision statedb.Revision
	// Deleted: that is a deletion. Attempted: it counts as attempted, as a paused one does.
	Deleted, Attempted bool
}

// Wait is the wait of one goroutine for one key. Its exported fields are set before [Waits.Join].
type Wait[Obj any] struct {
	Object    Obj
	Milestone progress.Milestone
	// Deleted: the table did not have the key, at Revision; else Revision is that of the row.
	Deleted  bool
	Revision statedb.Revision

	met      chan struct{}
	inserted bool
	key      string
	// ran: an operation has ended on the deletion of the key or on a later change; guarded by the
	// lock, as is pos.
	ran bool
	pos int
}

// Met returns a channel that is closed when the wait is over: the milestone is reached, or a key
// whose deletion was waited for has been inserted again. Call it after [Waits.Join].
func (w *Wait[Obj]) Met() <-chan struct{} { return w.met }

// Inserted reports whether the key has been inserted again. Call it after Met is closed.
func (w *Wait[Obj]) Inserted() bool { return w.inserted }

// HeapPos is for package keyheap.
func (w *Wait[Obj]) HeapPos() int { return w.pos }

// SetHeapPos is for package keyheap.
func (w *Wait[Obj]) SetHeapPos(pos int) { w.pos = pos }

// Waits are the waits for keys. They are looked at when something happens to their key. While there
// are none, that costs one atomic load. Join, Leave and Waiting are safe from any goroutine; the
// rest belongs to the goroutine of the loop. seen is the revision up to which that has taken in
// all changes.
type Waits[Obj comparable] struct {
	rows *rows.Rows[Obj]
	// debtOf returns what the key of an object owes; false if it is reconciled, as far as that
	// has been seen.
	debtOf func(Obj) (Debt, bool)
	some   atomic.Int64

	mu    sync.Mutex
	byKey map[string]map[*Wait[Obj]]struct{}
	// fresh have not been looked at. unseen are those whose revision had not been seen then, in
	// the order of these.
	fresh  map[*Wait[Obj]]struct{}
	unseen keyheap.Heap[*Wait[Obj]]

	// changed are the keys whose debt may have changed in this round without an operation.
	changed []string
}

// New returns Waits. debtOf is called by the goroutine of the loop.
func New[Obj comparable](of *rows.Rows[Obj], debtOf func(Obj) (Debt, bool)) *Waits[Obj] {
	return &Waits[Obj]{rows: of, debtOf: debtOf, byKey: map[string]map[*Wait[Obj]]struct{}{}, fresh: map[*Wait[Obj]]struct{}{}}
}

// Join begins a wait. It is first looked at by [Waits.Begin].
func (k *Waits[Obj]) Join(w *Wait[Obj]) {
	w.key, w.pos, w.met = string(k.rows.Key(w.Object)), -1, make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey[w.key] == nil {
		k.byKey[w.key] = map[*Wait[Obj]]struct{}{}
	}
	k.byKey[w.key][w] = struct{}{}
	k.fresh[w] = struct{}{}
	k.some.Add(1)
}

// Leave ends a wait, if it is not over.
func (k *Waits[Obj]) Leave(w *Wait[Obj]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(w)
}

// Waiting returns how many waits have begun and are not over.
func (k *Waits[Obj]) Waiting() int { return int(k.some.Load()) }

func (k *Waits[Obj]) drop(w *Wait[Obj]) {
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

// Begin looks at the waits that have begun since the last call.
func (k *Waits[Obj]) Begin(seen statedb.Revision) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.fresh {
		delete(k.fresh, w)
		if !k.look(w, seen) && w.Revision > seen {
			k.unseen.Push(w, int64(min(w.Revision, math.MaxInt64)))
		}
	}
}

// Noting returns the predicate paused, such that the debt of an object for which that is true counts
// as changed; nil for nil.
func (k *Waits[Obj]) Noting(paused func(Obj) bool) func(Obj) bool {
	if paused == nil {
		return nil
	}
	return func(object Obj) bool {
		is := paused(object)
		if is {
			k.Changed(object)
		}
		return is
	}
}

// Changed notes that the debt of an object may have changed without an operation. [Waits.Round] looks
// at its waits.
func (k *Waits[Obj]) Changed(object Obj) {
	if k.some.Load() > 0 {
		k.changed = append(k.changed, string(k.rows.Key(object)))
	}
}

// Ran looks at the waits for an object on which an operation has ended, at a revision, and which has
// been settled.
func (k *Waits[Obj]) Ran(object Obj, revision statedb.Revision, deleted bool, seen statedb.Revision) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.byKey[string(k.rows.Key(object))] {
		w.ran = w.ran || deleted || revision > w.Revision
		k.look(w, seen)
	}
}

// Round looks, at the end of a round, at the waits for keys whose debt may have changed, and for what
// has been seen since.
func (k *Waits[Obj]) Round(seen statedb.Revision) {
	if k.some.Load() == 0 {
		k.changed = k.changed[:0]
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.changed {
		for w := range k.byKey[key] {
			k.look(w, seen)
		}
	}
	k.changed = k.changed[:0]
	for {
		w, revision, ok := k.unseen.Min()
		if !ok || statedb.Revision(revision) > seen {
			return
		}
		k.unseen.Remove(w)
		k.look(w, seen)
	}
}

// look ends a wait that is over, and reports whether it is. It is called with the lock.
func (k *Waits[Obj]) look(w *Wait[Obj], seen statedb.Revision) bool {
	d, owed := k.debtOf(w.Object)
	over, inserted := w.over(d, owed, seen)
	if !over {
		return false
	}
	w.inserted = inserted
	k.drop(w)
	close(w.met)
	return true
}

// over reports whether a wait is, given what its key owes, and if so, whether the key has been
// inserted again.
func (w *Wait[Obj]) over(d Debt, owed bool, seen statedb.Revision) (over, inserted bool) {
	if !w.Deleted {
		return owed && d.Revision >= w.Revision && d.Attempted, false
	}
	switch {
	case !owed:
		return w.ran || seen >= w.Revision, false
	case d.Deleted:
		return w.Milestone == progress.Attempted && d.Attempted, false
	}
	inserted = d.Revision > w.Revision
	return inserted, inserted
}
