// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package keywaits has the waits for single keys, for milestones that no row shows: those of a
// deletion, after which there is no row, and those of a change that is not attempted now, for example
// because it is paused, so that the status of its row stays as it is.
//
// The state of a [Waits] is the waits that are not over. Callers join and leave on any goroutine. The
// loop's goroutine ends a wait when its key has reached the milestone: it asks a function of the loop
// about the key, and for a deletion whether the table has the object. It never writes a row.
package keywaits

import (
	"encoding/binary"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/part"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
)

// Limit bounds the keys and the waits that one [Waits.Check] visits.
const Limit = 1024

// Wait is the wait of one goroutine for one key. Set the exported fields before [Waits.Begin].
type Wait[Obj any] struct {
	Milestone progress.Milestone
	// Key is the key, and Get looks its row up.
	Key string
	Get func(txn statedb.ReadTxn) (row Obj, revision statedb.Revision, watch <-chan struct{}, found bool)

	// The lock of Waits guards the fields below. row, revision and deleted are the version that the wait is for now; a
	// deletion has no row, and gets a later revision when the loop sees a later row. from is the revision of the first
	// version. If that was a deletion, gone is the number of the wait when its caller had looked for the row.
	row            Obj
	revision, from statedb.Revision
	deleted        bool
	gone           uint64

	met            chan struct{}
	over, inserted bool
	// key has the wait, at an index; nil if the wait has not begun or has left. began is its number; order is
	// its key in parked, empty if it is not there.
	key   *key[Obj]
	at    int
	began uint64
	order string
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
	// latest is the highest revision of a row that took the place of a deletion since there are waits.
	latest statedb.Revision
}

// HeapPos is for package keyheap.
func (k *key[Obj]) HeapPos() int { return k.pos }

// SetHeapPos is for package keyheap.
func (k *key[Obj]) SetHeapPos(pos int) { k.pos = pos }

// operation is an operation that has ended. Operations and waits are numbered together.
type operation struct {
	number   uint64
	revision statedb.Revision
	deleted  bool
}

// Waits is the set of the waits for keys. A wait is looked at when something happens to its key, and when
// the deletions up to its revision were handed over or the mark has passed it: a round in which nothing
// happens costs no more with many waits. While there are none, this costs one atomic load.
//
// Begin, Join, IsOver, Leave and Waiting are safe from any goroutine. The other methods belong to the loop's
// goroutine.
type Waits[Obj any] struct {
	rows *rows.Rows[Obj]
	// unreconciled describes a key; false if it is reconciled, as far as changes were observed.
	unreconciled func(key string) (core.KeyInfo[Obj], bool)
	// paused reports whether an object is paused.
	paused func(Obj) bool
	mark   Mark
	// some is the number of waits.
	some atomic.Int64

	mu     sync.Mutex
	byKey  map[string]*key[Obj]
	number uint64
	// due are the keys with waits that are due, in the order in which they became due. parked are the waits for
	// reconciled keys, in the order of their revisions: those for rows, which the mark has to pass, after those
	// for deletions, up to which everything has to be handed over.
	due    keyheap.Heap[*key[Obj]]
	parked part.Map[string, *Wait[Obj]]
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

// New returns an empty set. unreconciled and paused are called by the loop's goroutine: paused for
// rows, of which changes may be unread.
func New[Obj any](
	of *rows.Rows[Obj], unreconciled func(key string) (core.KeyInfo[Obj], bool), paused func(Obj) bool, mark Mark,
) *Waits[Obj] {
	return &Waits[Obj]{rows: of, unreconciled: unreconciled, paused: paused, mark: mark, byKey: map[string]*key[Obj]{}}
}

// Begin begins a wait. What happens to its key from now on counts, so call it before the row is looked up for
// [Waits.Join].
func (k *Waits[Obj]) Begin(w *Wait[Obj]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.key = k.byKey[w.Key]; w.key == nil {
		w.key = &key[Obj]{text: w.Key, pos: -1}
		k.byKey[w.Key] = w.key
	}
	w.at, w.began, w.over = len(w.key.waits), k.next(), true
	w.key.waits = append(w.key.waits, w)
	k.some.Add(1)
}

// Join makes a wait that has begun a wait for a version of its row, or for a later one than before. deleted: the
// table did not have the row at this revision; otherwise the revision is that of the row. The channel is
// closed when the wait is over: the version has reached the milestone; or it was deleted and the key was inserted
// again; or an operation on the first version or a later one has reached the milestone, whatever has become of
// the key since.
func (k *Waits[Obj]) Join(w *Wait[Obj], row Obj, revision statedb.Revision, deleted bool) (met <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.met == nil {
		w.from = revision
		if deleted {
			w.gone = k.next()
		}
	}
	w.row, w.revision, w.deleted = row, revision, deleted
	w.met, w.over, w.inserted = make(chan struct{}), k.reached(w, revision), false
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

// IsOver reports whether a wait is over, and not because the key was inserted again. Call it between Join and
// Leave.
func (k *Waits[Obj]) IsOver(w *Wait[Obj]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return w.over && !w.inserted
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

// park has a wait looked at when everything up to its revision was handed over or, if it is for a row, when the
// mark has passed that.
func (k *Waits[Obj]) park(w *Wait[Obj]) {
	w.order = order(!w.deleted, w.revision, w.began)
	k.parked = k.parked.Set(w.order, w)
}

func (k *Waits[Obj]) unpark(w *Wait[Obj]) {
	if w.order != "" {
		k.parked, w.order = k.parked.Delete(w.order), ""
	}
}

// order returns a key that is in the order of revisions, with those of rows after those of deletions.
func order(row bool, revision statedb.Revision, number uint64) string {
	var b [17]byte
	if row {
		b[0] = 1
	}
	binary.BigEndian.PutUint64(b[1:9], revision)
	binary.BigEndian.PutUint64(b[9:], number)
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

// NoteChange records that the state of an object's key may have changed without an operation. row is the revision of
// the row because of which a deletion is not carried out: a wait for one is not over before a later state of the table
// was handed over. It is 0 if there is none.
func (k *Waits[Obj]) NoteChange(object Obj, row statedb.Revision) {
	k.note(object, func(key *key[Obj]) { key.latest = max(key.latest, row) })
}

// NoteOperation records that an operation on an object, at the given revision, has ended and was
// settled. applied reports whether the target has the version now.
func (k *Waits[Obj]) NoteOperation(object Obj, revision statedb.Revision, deleted, applied bool) {
	k.note(object, func(key *key[Obj]) {
		key.last = operation{k.next(), revision, deleted}
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

// Check ends waits that are over. It looks at those that have begun or to whose keys something has happened, and at
// those that the given state or the mark have passed, since they were last looked at. state is a state of the table
// of which every deletion was handed over to the core, or left out for a row that NoteChange was told of; nil if
// none is at hand. more: there are more than [Limit] of them, for the next call.
func (k *Waits[Obj]) Check(state statedb.ReadTxn) (more bool) {
	if k.some.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	passed := k.passed(state)
	for left := Limit; left > 0 && k.due.Len() > 0; {
		key := k.due.Pop()
		for ; key.due > 0 && left > 0; left-- {
			key.due--
			k.check(key.waits[key.due], state)
		}
		k.queue(key)
	}
	return passed == Limit || k.due.Len() > 0
}

// passed makes the waits due that a state or the mark has passed, and returns their number, at most Limit.
func (k *Waits[Obj]) passed(state statedb.ReadTxn) (n int) {
	pass := func(rows bool, after, upTo statedb.Revision) {
		for _, w := range k.parked.LowerBound(order(rows, after, 0)) {
			if n == Limit || w.deleted == rows || w.revision > upTo {
				return
			}
			n++
			k.request(w)
		}
	}
	if state != nil {
		pass(false, 0, k.rows.Table.Revision(state))
	}
	for after, upTo := range k.mark.Covered() {
		pass(true, after+1, upTo)
	}
	return n
}

// check ends a wait if it is over. Otherwise the wait is looked at again when something happens to its key or, if the
// key is reconciled, when more was handed over or covered. The caller holds mu.
func (k *Waits[Obj]) check(w *Wait[Obj], state statedb.ReadTxn) {
	k.unpark(w)
	if w.over {
		return
	}
	u, found := k.unreconciled(w.Key)
	switch {
	case k.reached(w, max(w.revision, u.Revision)):
		w.over = true
	case w.deleted && !found:
		w.revision = max(w.revision, w.key.latest)
		if w.over = state != nil && k.rows.Table.Revision(state) >= w.revision; w.over {
			_, _, _, w.inserted = w.Get(state)
		}
	case w.deleted && !u.Deleted:
		w.inserted = u.Revision >= w.revision
		w.over = w.inserted
	case w.deleted || found && u.Revision >= w.revision:
		w.over = w.Milestone == progress.Attempted && (u.Tried || u.Paused)
	default:
		// A version that the loop has not read, or has applied.
		w.over = !found && k.mark.Covers(w.revision) || w.Milestone == progress.Attempted && k.paused(w.row)
	}
	switch {
	case w.over:
		close(w.met)
	case !found && (w.deleted || k.rows.Writable == nil):
		k.park(w)
	}
}

// reached reports whether an operation on the first version of a wait or a later one has reached the milestone since
// it began. For a deletion any deletion that ends after the table was looked at is enough: no older version is run
// after it, because the table has none. Beside the table, the latest version shows as Done when the mark has passed
// it; until then its operation may not count, see core.Refresh.
func (k *Waits[Obj]) reached(w *Wait[Obj], latest statedb.Revision) bool {
	o := w.key.last
	if w.Milestone == progress.Applied {
		o = w.key.applied
	}
	return o.number > w.began && (o.revision >= w.from || o.deleted && w.gone > 0 && o.number > w.gone) &&
		(k.rows.Writable != nil || w.deleted || o.revision < latest)
}
