// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"
	"time"

	"github.com/statekeel/statekeel/internal/keyheap"
)

// Index has what is derived from the facts of all entries: counts, the keys that are not reconciled, the changes
// that were not attempted, and the records for a ledger. Its exported methods may be called between two rounds.
type Index[Obj any] struct {
	figures Figures
	// unreconciled orders the entries that are not reconciled by the revision since which they are
	// not. newestSince is the highest revision that was ever in it.
	unreconciled keyheap.Heap[unreconciledEntry[Obj]]
	newestSince  uint64
	// untried orders the entries whose change has not been attempted in the same way: those without a record
	// are in the heap untriedHeld, the others in untriedRecorded.
	untried [untriedHeaps]keyheap.Heap[untriedEntry[Obj]]
	// records: a ledger takes records. touched are the entries whose record may have changed.
	records bool
	touched []*entry[Obj]
}

const (
	untriedHeld = iota
	untriedRecorded
	untriedHeaps
)

// Figures counts the keys that have an entry.
type Figures struct {
	// States has the number of keys by state, Lanes that of ready keys by lane.
	States [NumStates]int
	Lanes  [NumLanes]int
	// Failing counts the keys whose last attempt failed, Blocked those whose last attempt was blocked, including
	// those that are being attempted again.
	Failing, Blocked int
	// Found counts the keys that a resync has found, as orphans or to be repaired, whose operation is to come or runs.
	Found int
	// FailureVersion changes whenever a key begins or ceases to fail or fails with another text.
	FailureVersion uint64
}

// indexed is what the index, and the ledger, have of an entry.
type indexed struct {
	// since and untried are the revisions under which the entry is in the heaps unreconciled and untried;
	// 0 means not in the heap. unreconciledPos and untriedPos are its positions.
	since, untried uint64
	// revision is that of the newest version, text that of the last attempt.
	revision                    uint64
	text                        *string
	unreconciledPos, untriedPos int32
	// An entry in state Taken is not counted.
	state  State
	lane   Lane
	result result
	// recorded is the kind of the record that the ledger has. touched: the entry is in Index.touched.
	recorded Recorded
	touched  bool
	// found: the entry is counted in Figures.Found.
	found bool
}

// unreconciledEntry is an entry with its position in the heap [Index.unreconciled].
type unreconciledEntry[Obj any] struct{ *entry[Obj] }

func (o unreconciledEntry[Obj]) HeapPos() int       { return int(o.indexed.unreconciledPos) }
func (o unreconciledEntry[Obj]) SetHeapPos(pos int) { o.indexed.unreconciledPos = int32(pos) }

// untriedEntry is an entry with its position in a heap of [Index.untried].
type untriedEntry[Obj any] struct{ *entry[Obj] }

func (t untriedEntry[Obj]) HeapPos() int       { return int(t.indexed.untriedPos) }
func (t untriedEntry[Obj]) SetHeapPos(pos int) { t.indexed.untriedPos = int32(pos) }

// unreconciled returns the version that says since when a key is not reconciled: the one that runs, or the
// newest if the key was reconciled when that began to run. Its since is 0 if the key is reconciled.
func (e *entry[Obj]) unreconciled() *rowVersion[Obj] {
	if e.version.since > 0 {
		return &e.version
	}
	return e.newest()
}

// untriedSince returns the revision since which the change of a key is not attempted; 0 if it counts as
// attempted. A change that has not been attempted counts as such while it waits for its turn or is in
// flight, but not while it is held or paused, or is about to be replaced by a deletion.
func (e *entry[Obj]) untriedSince() uint64 {
	v, state := &e.version, e.state
	if e.later != nil && (v.tried || v.since == 0) {
		v, state = e.later, Ready
	}
	if v.tried || !e.isToRun(v, state) {
		return 0
	}
	return v.since
}

// isToRun reports whether a version waits for its turn, or is in flight, if the entry is in a state.
func (e *entry[Obj]) isToRun(v *rowVersion[Obj], s State) bool {
	if s == Queued {
		s = e.from
	}
	return s == InFlight || s == Ready && !v.paused
}

// heap returns the index of the heap of Index.untried that the entry is in if it is untried.
func (has *indexed) heap() int {
	if has.recorded != NotRecorded {
		return untriedRecorded
	}
	return untriedHeld
}

// reindex brings the index up to date with the facts of an entry, and notes whether its record may have changed. If
// the facts have not changed, it costs some comparisons.
func (x *Index[Obj]) reindex(e *entry[Obj]) { x.reindexAs(e, e.indexed.recorded) }

// reindexAs is reindex for an entry whose record has the given kind from now on.
func (x *Index[Obj]) reindexAs(e *entry[Obj], recorded Recorded) {
	has, past, revision := &e.indexed, &e.past, e.newest().revision
	since, untried, heap := e.unreconciled().since, e.untriedSince(), has.heap()
	move(&x.unreconciled, &x.unreconciled, unreconciledEntry[Obj]{e}, has.since, since)
	x.newestSince = max(x.newestSince, since)
	has.recorded = recorded
	move(&x.untried[heap], &x.untried[has.heap()], untriedEntry[Obj]{e}, has.untried, untried)
	has.since, has.untried = since, untried

	news, revised := !sameText(past.text, has.text), revision != has.revision
	if (past.result == hasFailed || has.result == hasFailed) && (past.result != has.result || news) {
		x.figures.FailureVersion++
	}
	x.count(has, -1)
	has.revision, has.text, has.result = revision, past.text, past.result
	has.state, has.lane = e.state, e.version.lane
	has.found = (e.cause == CauseOrphan || e.cause == CauseRepair) && e.isToRun(&e.version, e.state)
	x.count(has, 1)
	if x.records && !has.touched {
		kind := e.recordKind()
		if kind != recorded || kind != NotRecorded && (news || revised) {
			has.touched = true
			x.touched = append(x.touched, e)
		}
	}
}

// count adds n to the counters to which an entry belongs.
func (x *Index[Obj]) count(has *indexed, n int) {
	f := &x.figures
	switch has.state {
	case Taken:
		return
	case Ready:
		f.Lanes[has.lane] += n
	}
	f.States[has.state] += n
	if has.found {
		f.Found += n
	}
	switch has.result {
	case hasFailed:
		f.Failing += n
	case wasBlocked:
		f.Blocked += n
	}
}

// move moves an item from one heap, or place in it, to another. A revision of 0 means not in the heap.
func move[T keyheap.Item](from, to *keyheap.Heap[T], item T, was, is uint64) {
	if from == to && was == is {
		return
	}
	if was > 0 {
		from.Remove(item)
	}
	if is > 0 {
		to.Push(item, int64(is))
	}
}

// sameText reports whether two texts are equal. They are often the same string.
func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// Figures returns the counters.
func (x *Index[Obj]) Figures() Figures { return x.figures }

// unreconcile makes a key unreconciled that was reconciled until now: since the revision after the last
// observed one, which its row will have when the outcome is written. With records nothing is written
// into the row, so it is unreconciled since the revision of the row.
func (x *Index[Obj]) unreconcile(e *entry[Obj], observed uint64) {
	switch {
	case e.version.since > 0:
		return
	case x.records:
		e.version.since = e.version.revision
	default:
		e.version.since = observed + 1
	}
	e.version.repeats = true
}

// LaneSize returns how many keys are ready in a lane.
func (x *Index[Obj]) LaneSize(lane Lane) int { return x.figures.Lanes[lane] }

// LowWatermark returns the lowest observed revision that is not reconciled; 0 if all are.
func (x *Index[Obj]) LowWatermark() uint64 {
	_, since, _ := x.unreconciled.Min()
	return uint64(since)
}

// Attempted returns the revision up to which every change has been attempted, or replaced by a
// later one, if changes were observed up to the given revision. A change that is paused, or held
// for the minimum backoff, counts as attempted: it shows in LowWatermark.
func (x *Index[Obj]) Attempted(observed uint64) uint64 {
	for i := range x.untried {
		if _, since, ok := x.untried[i].Min(); ok {
			observed = min(observed, uint64(since)-1)
		}
	}
	return observed
}

// UnreconciledKey is a key that is not reconciled.
type UnreconciledKey[Obj any] struct {
	// Since, Key and Deleted are as in [KeyInfo].
	Since   uint64
	Key     string
	Deleted bool
	entry   *entry[Obj]
}

// Describe describes the key. Call it before the index changes.
func (u *UnreconciledKey[Obj]) Describe() KeyInfo[Obj] { return u.entry.describe() }

// Unreconciled calls yield for the keys that are unreconciled since the given revision or a later one, in the order
// of Since, until yield returns false. It is cheap to pass the others; the cost grows with the number of keys that
// it yields.
func (x *Index[Obj]) Unreconciled(since uint64, yield func(UnreconciledKey[Obj]) bool) {
	x.unreconciled.AscendFrom(int64(min(since, math.MaxInt64)), func(o unreconciledEntry[Obj], _ int64) bool {
		return yield(UnreconciledKey[Obj]{o.unreconciled().since, o.key, o.newest().deleted, o.entry})
	})
}

// CountUnreconciled returns how many keys are unreconciled since the given revision or an earlier
// one. It counts up to limit, but returns the exact number where that needs no counting. O(limit).
func (x *Index[Obj]) CountUnreconciled(revision uint64, limit int) int {
	if revision >= x.newestSince {
		return x.unreconciled.Len()
	}
	return x.unreconciled.CountUpTo(int64(min(revision, math.MaxInt64)), limit)
}

// Oldest returns the object that has been unreconciled for longest, and when its change was
// written; 0 means that the time must be read from the object. It returns false if all objects are
// reconciled.
func (x *Index[Obj]) Oldest() (obj Obj, wanted time.Duration, ok bool) {
	o, _, ok := x.unreconciled.Min()
	if !ok {
		return obj, 0, false
	}
	v := o.entry.unreconciled()
	return v.obj, v.wanted, true
}
