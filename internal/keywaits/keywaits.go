// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package keywaits has the waits for single keys, for milestones that no row shows: those of a
// deletion, after which there is no row, and those of a change that is not attempted now, for example
// because it is paused, so that the status of its row stays as it is.
//
// The state of a [Waits] is the waits that are not over. Callers join and leave on any goroutine. The
// loop's goroutine ends a wait when its key has reached the milestone: it asks a function of the loop
// about the key, and never reads the table or writes a row.
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

// Unreconciled is the state of a key that is not reconciled.
type Unreconciled struct {
	// Revision is the revision of the latest change that was observed.
	Revision statedb.Revision
	// Deleted reports whether that change is a deletion. Attempted reports whether it counts as
	// attempted, as the change of a paused key does.
	Deleted, Attempted bool
}

// Wait is the wait of one goroutine for one key. Set the exported fields before [Waits.Join].
type Wait[Obj any] struct {
	Object    Obj
	Milestone progress.Milestone
	// Deleted reports that the table did not have the key at Revision. Otherwise Revision is that of
	// the row.
	Deleted  bool
	Revision statedb.Revision
	// From is the revision of the version that the caller waits for: an operation on that version or a
	// later one ends the wait, whatever has become of the key since.
	From statedb.Revision

	met      chan struct{}
	inserted bool
	key      string
	// ran: an operation on the deletion of the key or on a later change has ended. reached: an operation on
	// the version From or a later one has reached the milestone. in is the heap that has the wait; nil if
	// none. The lock of Waits guards them and pos.
	ran, reached bool
	in           *keyheap.Heap[*Wait[Obj]]
	pos          int
}

// Met returns a channel that is closed when the wait is over: its milestone is reached, or a key
// whose deletion was waited for was inserted again. Call it after [Waits.Join].
func (w *Wait[Obj]) Met() <-chan struct{} { return w.met }

// Inserted reports whether the key was inserted again. Call it after Met is closed.
func (w *Wait[Obj]) Inserted() bool { return w.inserted }

// HeapPos is for package keyheap.
func (w *Wait[Obj]) HeapPos() int { return w.pos }

// SetHeapPos is for package keyheap.
func (w *Wait[Obj]) SetHeapPos(pos int) { w.pos = pos }

// Waits is the set of the waits for keys. A wait is checked when something happens to its key. While
// there are no waits, this costs one atomic load.
//
// Join, Leave and Waiting are safe from any goroutine. The other methods belong to the loop's
// goroutine. Their argument seen is the revision up to which the loop has observed all changes.
type Waits[Obj comparable] struct {
	rows *rows.Rows[Obj]
	// unreconciledOf returns the state of an object's key; false if it is reconciled as far as
	// changes were observed.
	unreconciledOf func(Obj) (Unreconciled, bool)
	// paused reports whether an object is paused.
	paused func(Obj) bool
	mark   Mark
	// some is the number of waits.
	some atomic.Int64

	mu    sync.Mutex
	byKey map[string]map[*Wait[Obj]]struct{}
	// fresh are the waits that were not checked yet. unseen are those whose Revision was not observed
	// when they were checked, in the order of these revisions. uncovered are those for rows that were
	// reconciled when they were checked, and that the mark has to pass, in the same order.
	fresh             map[*Wait[Obj]]struct{}
	unseen, uncovered keyheap.Heap[*Wait[Obj]]

	// changed has the keys that NoteChange recorded in this round.
	changed []string
}

// Mark is how far a table was attempted, where the rows do not show it. The loop's goroutine calls it.
type Mark interface {
	// Covers reports whether a version that is reconciled shows as Done. It is always false if the
	// rows show it: then their watch channels end the waits for them.
	Covers(revision statedb.Revision) bool
	// Scattered reports whether Covers may be true for a revision above one for which it is false.
	Scattered() bool
}

// New returns an empty set. unreconciledOf and paused are called by the loop's goroutine: paused for
// rows, of which changes may be unread.
func New[Obj comparable](of *rows.Rows[Obj], unreconciledOf func(Obj) (Unreconciled, bool), paused func(Obj) bool, mark Mark) *Waits[Obj] {
	return &Waits[Obj]{rows: of, unreconciledOf: unreconciledOf, paused: paused, mark: mark, byKey: map[string]map[*Wait[Obj]]struct{}{}, fresh: map[*Wait[Obj]]struct{}{}}
}

// Join begins a wait. The next [Waits.BeginRound] checks it.
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

// Leave ends a wait. It reports whether the wait was over, and not because the key was inserted again; and
// whether an operation on the version From or a later one has reached the milestone.
func (k *Waits[Obj]) Leave(w *Wait[Obj]) (over, reached bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, joined := k.byKey[w.key][w]
	k.drop(w)
	return !joined && !w.inserted, w.reached
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
	k.unpark(w)
	k.some.Add(-1)
}

// park puts a wait into a heap, and takes it out of the one that has it.
func (k *Waits[Obj]) park(w *Wait[Obj], in *keyheap.Heap[*Wait[Obj]]) {
	k.unpark(w)
	w.in = in
	in.Push(w, int64(min(w.Revision, math.MaxInt64)))
}

func (k *Waits[Obj]) unpark(w *Wait[Obj]) {
	if w.in != nil {
		w.in.Remove(w)
		w.in = nil
	}
}

// BeginRound checks the waits that have begun since its last call.
func (k *Waits[Obj]) BeginRound(seen statedb.Revision) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.fresh {
		delete(k.fresh, w)
		if !k.look(w, seen) && w.Revision > seen {
			k.park(w, &k.unseen)
		}
	}
}

// CheckAll makes the next [Waits.BeginRound] check all waits, because other objects are paused now.
func (k *Waits[Obj]) CheckAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, waits := range k.byKey {
		for w := range waits {
			k.fresh[w] = struct{}{}
		}
	}
}

// NotePaused returns a predicate that calls paused, and [Waits.NoteChange] if that returns true;
// nil if paused is nil.
func (k *Waits[Obj]) NotePaused(paused func(Obj) bool) func(Obj) bool {
	if paused == nil {
		return nil
	}
	return func(object Obj) bool {
		is := paused(object)
		if is {
			k.NoteChange(object)
		}
		return is
	}
}

// NoteChange records that the state of an object's key may have changed without an operation.
// [Waits.EndRound] checks its waits.
func (k *Waits[Obj]) NoteChange(object Obj) {
	if k.some.Load() > 0 {
		k.changed = append(k.changed, string(k.rows.Key(object)))
	}
}

// NoteOperation records that an operation on an object, at the given revision, has ended and was
// settled. applied reports whether the target has the version now. [Waits.EndRound] checks its waits.
func (k *Waits[Obj]) NoteOperation(object Obj, revision statedb.Revision, deleted, applied bool) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key := string(k.rows.Key(object))
	for w := range k.byKey[key] {
		w.ran = w.ran || deleted || revision > w.Revision
		w.reached = w.reached || revision >= w.From && (applied || w.Milestone == progress.Attempted)
	}
	k.changed = append(k.changed, key)
}

// EndRound checks, at the end of a round, the waits for the keys that NoteChange and NoteOperation
// recorded, those whose Revision was observed since they were last checked, and those that the mark
// has passed.
func (k *Waits[Obj]) EndRound(seen statedb.Revision) {
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
	for w, revision, ok := k.unseen.Min(); ok && statedb.Revision(revision) <= seen; w, revision, ok = k.unseen.Min() {
		k.unpark(w)
		k.look(w, seen)
	}
	k.lookCovered(seen)
}

// lookCovered checks the waits for rows that the mark has passed. The caller holds mu.
func (k *Waits[Obj]) lookCovered(seen statedb.Revision) {
	for _, w := range k.covered(&k.uncovered) {
		k.unpark(w)
		k.look(w, seen)
	}
	if !k.mark.Scattered() {
		return
	}
	for _, w := range k.covered(&k.unseen) {
		if !w.Deleted && !k.look(w, seen) {
			k.park(w, &k.unseen)
		}
	}
}

// covered returns the waits of a heap that the mark has passed.
func (k *Waits[Obj]) covered(in *keyheap.Heap[*Wait[Obj]]) (covered []*Wait[Obj]) {
	scattered := k.mark.Scattered()
	in.Ascend(func(w *Wait[Obj], _ int64) bool {
		is := k.mark.Covers(w.Revision)
		if is {
			covered = append(covered, w)
		}
		return is || scattered
	})
	return covered
}

// look ends a wait if it is over, and reports whether it is. The caller holds mu.
func (k *Waits[Obj]) look(w *Wait[Obj], seen statedb.Revision) bool {
	u, found := k.unreconciledOf(w.Object)
	// Beside the table, a version that is still the latest shows as Done when the mark has passed it; until
	// then its operation may not count, see core.Again.
	if w.reached && (found && u.Revision > w.Revision || k.rows.Writable != nil) {
		k.end(w)
		return true
	}
	over, inserted := w.over(u, found, seen)
	if !w.Deleted && w.Milestone == progress.Attempted && (!found || u.Revision < w.Revision) {
		// The loop has not read the change, or has applied it.
		over = k.paused(w.Object)
	}
	if !over && !found && !w.Deleted {
		if over = k.mark.Covers(w.Revision); !over && (w.Revision <= seen || k.mark.Scattered()) {
			k.park(w, &k.uncovered)
		}
	}
	if !over {
		return false
	}
	w.inserted = inserted
	k.end(w)
	return true
}

// end ends a wait. The caller holds mu.
func (k *Waits[Obj]) end(w *Wait[Obj]) {
	k.drop(w)
	close(w.met)
}

// over reports whether a wait is over, and whether that is because the key was inserted again. found
// reports whether the key is not reconciled; then u is its state.
func (w *Wait[Obj]) over(u Unreconciled, found bool, seen statedb.Revision) (over, inserted bool) {
	if !w.Deleted {
		return w.Milestone == progress.Attempted && found && u.Revision >= w.Revision && u.Attempted, false
	}
	switch {
	case !found:
		return w.ran || seen >= w.Revision, false
	case u.Deleted:
		return w.Milestone == progress.Attempted && u.Attempted, false
	}
	inserted = u.Revision > w.Revision
	return inserted, inserted
}
