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
	"encoding/binary"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/part"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
)

// Limit bounds the keys and the waits that one [Waits.Look] visits.
const Limit = 1024

// Unreconciled is the state of a key that is not reconciled.
type Unreconciled struct {
	// Revision is the revision of the latest change that was observed.
	Revision statedb.Revision
	// Deleted reports whether that change is a deletion. Attempted reports whether it counts as
	// attempted, as the change of a paused key does.
	Deleted, Attempted bool
}

// Wait is the wait of one goroutine for one key. Set the exported field before [Waits.Join].
type Wait[Obj any] struct {
	Milestone progress.Milestone

	// The lock of Waits guards the fields below. object, revision and deleted are the version that the
	// wait is for now, from is the revision of the first one.
	object         Obj
	revision, from statedb.Revision
	deleted        bool

	met            chan struct{}
	over, inserted bool
	// key has the wait, at an index; nil if the wait has not begun or has left. began is its number, place
	// its key in unseen and in uncovered; empty if it is in neither.
	key   *key[Obj]
	at    int
	began uint64
	place string
}

// key has the waits for one key, also those that are over and have not left.
type key[Obj any] struct {
	text string
	// The first due of the waits are to be looked at.
	waits []*Wait[Obj]
	due   int
	pos   int
	// last is the last operation that has ended, applied the last one that was applied, since there are
	// waits. Operations of a key never go back to an older revision.
	last, applied operation
}

// HeapPos is for package keyheap.
func (k *key[Obj]) HeapPos() int { return k.pos }

// SetHeapPos is for package keyheap.
func (k *key[Obj]) SetHeapPos(pos int) { k.pos = pos }

// operation is an operation that has ended. Operations and waits are numbered together.
type operation struct {
	number           uint64
	revision         statedb.Revision
	deleted, applied bool
}

// Waits is the set of the waits for keys. A wait is looked at when something happens to its key, and when
// the loop has observed its revision or the mark has passed it, once each: a round in which nothing happens
// costs no more with many waits. While there are none, this costs one atomic load.
//
// Join, State, Leave and Waiting are safe from any goroutine. The other methods belong to the loop's
// goroutine.
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

	mu     sync.Mutex
	byKey  map[string]*key[Obj]
	number uint64
	// due are the keys with waits that are due, in the order in which they became due. unseen are the waits
	// whose revision was not observed when they were looked at, in the order of these revisions. uncovered
	// are those for rows that were reconciled, and that the mark has to pass, in the same order.
	due               keyheap.Heap[*key[Obj]]
	unseen, uncovered part.Map[string, *Wait[Obj]]
}

// Mark is how far a table was attempted, where the rows do not show it. The loop's goroutine calls it.
type Mark interface {
	// Covers reports whether a version that is reconciled shows as Done. It is always false if the
	// rows show it: then their watch channels end the waits for them.
	Covers(revision statedb.Revision) bool
	// Covered returns the ranges for which Covers is true: the revisions above the first and up to the
	// second.
	Covered() iter.Seq2[statedb.Revision, statedb.Revision]
}

// New returns an empty set. unreconciledOf and paused are called by the loop's goroutine: paused for
// rows, of which changes may be unread.
func New[Obj comparable](of *rows.Rows[Obj], unreconciledOf func(Obj) (Unreconciled, bool), paused func(Obj) bool, mark Mark) *Waits[Obj] {
	return &Waits[Obj]{rows: of, unreconciledOf: unreconciledOf, paused: paused, mark: mark, byKey: map[string]*key[Obj]{}}
}

// Join begins a wait for a version of an object, or goes on with a later version: what has happened to the
// key since the wait began still counts. deleted: the table did not have the object at this revision;
// otherwise the revision is that of the row. The channel is closed when the wait is over: the version has
// reached the milestone; or it was deleted and the key was inserted again; or an operation on the first
// version or a later one has reached the milestone, whatever has become of the key since.
func (k *Waits[Obj]) Join(w *Wait[Obj], object Obj, revision statedb.Revision, deleted bool) (met <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.key == nil {
		text := string(k.rows.Key(object))
		if w.key = k.byKey[text]; w.key == nil {
			w.key = &key[Obj]{text: text, pos: -1}
			k.byKey[text] = w.key
		}
		w.at, w.from, w.began = len(w.key.waits), revision, k.next()
		w.key.waits = append(w.key.waits, w)
		k.some.Add(1)
	}
	k.unpark(w)
	w.object, w.revision, w.deleted = object, revision, deleted
	w.met, w.over, w.inserted = make(chan struct{}), k.replaced(w, revision), false
	if w.over {
		close(w.met)
	} else {
		k.request(w)
	}
	return w.met
}

func (k *Waits[Obj]) next() uint64 {
	k.number++
	return k.number
}

// request makes a wait due.
func (k *Waits[Obj]) request(w *Wait[Obj]) {
	k.unpark(w)
	key := w.key
	if w.at >= key.due {
		other := key.waits[key.due]
		key.waits[key.due], key.waits[w.at] = w, other
		w.at, other.at = key.due, w.at
		key.due++
	}
	k.queue(key)
}

// queue has a key looked at if it has waits that are due.
func (k *Waits[Obj]) queue(key *key[Obj]) {
	if key.pos < 0 && key.due > 0 {
		k.due.Push(key, int64(k.next()))
	}
}

// State reports whether a wait is over, and not because the key was inserted again; and whether an operation
// on its first version or a later one has reached the milestone. Call it between Join and Leave.
func (k *Waits[Obj]) State(w *Wait[Obj]) (over, reached bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, reached = w.reached()
	return w.over && !w.inserted, reached
}

// Leave ends a wait. It does nothing if the wait has not begun or has left.
func (k *Waits[Obj]) Leave(w *Wait[Obj]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := w.key
	if key == nil {
		return
	}
	k.unpark(w)
	last := len(key.waits) - 1
	key.waits[w.at] = key.waits[last]
	key.waits[w.at].at = w.at
	key.waits[last] = nil
	key.waits, key.due, w.key = key.waits[:last], min(key.due, last), nil
	if key.due == 0 && key.pos >= 0 {
		k.due.Remove(key)
	}
	if last == 0 {
		delete(k.byKey, key.text)
	}
	k.some.Add(-1)
}

// Waiting returns how many waits have begun and not left.
func (k *Waits[Obj]) Waiting() int { return int(k.some.Load()) }

func (k *Waits[Obj]) unpark(w *Wait[Obj]) {
	if w.place != "" {
		k.unseen, k.uncovered, w.place = k.unseen.Delete(w.place), k.uncovered.Delete(w.place), ""
	}
}

// place returns a key that is in the order of revisions.
func place(revision statedb.Revision, number uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], revision)
	binary.BigEndian.PutUint64(b[8:], number)
	return string(b[:])
}

// NotePause makes all waits due, because other objects are paused now.
func (k *Waits[Obj]) NotePause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.byKey {
		key.due = len(key.waits)
		k.queue(key)
	}
}

// NoteChange records that the state of an object's key may have changed without an operation.
func (k *Waits[Obj]) NoteChange(object Obj) { k.note(object, func(*key[Obj]) {}) }

// NoteUnread records that an object has a change, up to the given revision, that the loop has not read and that is
// later than those that it has read: a wait for a deletion of the object is not over before that is read.
func (k *Waits[Obj]) NoteUnread(object Obj, revision statedb.Revision) {
	k.note(object, func(key *key[Obj]) {
		for _, w := range key.waits {
			if w.deleted {
				w.revision = max(w.revision, revision)
			}
		}
	})
}

// NoteOperation records that an operation on an object, at the given revision, has ended and was
// settled. applied reports whether the target has the version now.
func (k *Waits[Obj]) NoteOperation(object Obj, revision statedb.Revision, deleted, applied bool) {
	k.note(object, func(key *key[Obj]) {
		key.last = operation{k.next(), revision, deleted, applied}
		if applied {
			key.applied = key.last
		}
	})
}

// note makes all waits for a key due. happened is called if there are any.
func (k *Waits[Obj]) note(object Obj, happened func(*key[Obj])) {
	if k.some.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.byKey[string(k.rows.Key(object))]; key != nil {
		happened(key)
		key.due = len(key.waits)
		k.queue(key)
	}
}

// Look ends waits that are over. It looks at those that have begun, at those for the keys that NoteChange
// and NoteOperation recorded, at those whose revision was observed, and at those that the mark has passed,
// since they were last looked at. seen is the revision up to which the loop has observed all changes. more:
// there are more than [Limit] of them, for the next call.
func (k *Waits[Obj]) Look(seen statedb.Revision) (more bool) {
	if k.some.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	passed := k.passed(seen)
	for left := Limit; left > 0 && k.due.Len() > 0; {
		key := k.due.Pop()
		for ; key.due > 0 && left > 0; left-- {
			key.due--
			k.look(key.waits[key.due], seen)
		}
		k.queue(key)
	}
	return passed == Limit || k.due.Len() > 0
}

// passed makes the waits due whose revision was observed or that the mark has passed, and returns their
// number, at most Limit.
func (k *Waits[Obj]) passed(seen statedb.Revision) (n int) {
	pass := func(waits part.Map[string, *Wait[Obj]], after, upTo statedb.Revision) {
		for _, w := range waits.LowerBound(place(after+1, 0)) {
			if n == Limit || w.revision > upTo {
				return
			}
			n++
			k.request(w)
		}
	}
	pass(k.unseen, 0, seen)
	for after, upTo := range k.mark.Covered() {
		pass(k.uncovered, after, upTo)
	}
	return n
}

// look ends a wait if it is over. Otherwise the wait is looked at again when something happens to its key, when
// the loop has observed its revision, and when the mark has passed it if that shows that it is Done. The
// caller holds mu.
func (k *Waits[Obj]) look(w *Wait[Obj], seen statedb.Revision) {
	k.unpark(w)
	if w.over {
		return
	}
	u, found := k.unreconciledOf(w.object)
	last := w.key.last
	switch {
	case k.replaced(w, max(w.revision, u.Revision)):
		w.over = true
	case !w.deleted && !found:
		w.over = k.mark.Covers(w.revision) || k.countsAsAttempted(w)
	case !found:
		w.over = seen >= w.revision || last.number > w.began && (last.deleted && last.applied || last.revision > w.revision)
	case w.deleted && !u.Deleted:
		w.inserted = u.Revision >= w.revision
		w.over = w.inserted
	case w.deleted || u.Revision >= w.revision:
		w.over = w.Milestone == progress.Attempted && u.Attempted
	default:
		w.over = k.countsAsAttempted(w)
	}
	if w.over {
		close(w.met)
		return
	}
	w.place = place(w.revision, w.began)
	if w.revision > seen {
		k.unseen = k.unseen.Set(w.place, w)
	}
	if !found && !w.deleted && k.rows.Writable == nil {
		k.uncovered = k.uncovered.Set(w.place, w)
	}
}

// countsAsAttempted reports whether a version that the loop has not read, or has applied, counts as attempted because it
// is paused.
func (k *Waits[Obj]) countsAsAttempted(w *Wait[Obj]) bool {
	return w.Milestone == progress.Attempted && k.paused(w.object)
}

// replaced reports whether a version has reached the milestone that is not the latest one any more. Beside the
// table, the latest one shows as Done when the mark has passed it; until then its operation may not count, see
// core.Again.
func (k *Waits[Obj]) replaced(w *Wait[Obj], latest statedb.Revision) bool {
	o, reached := w.reached()
	return reached && (k.rows.Writable != nil || o.revision < latest)
}

// reached returns the last operation that has reached the milestone, and whether it has since the wait began,
// on the first version or a later one.
func (w *Wait[Obj]) reached() (o operation, reached bool) {
	o = w.key.last
	if w.Milestone == progress.Applied {
		o = w.key.applied
	}
	return o, o.number > w.began && o.revision >= w.from
}
