// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
)

// cursors is the state of the two cursors of a world. The main cursor reads a snapshot to its end
// before it takes the next. The catch-up cursor, while it exists, reads what is newer.
type cursors struct {
	// observed is the revision up to which main has handed over all changes.
	observed uint64
	// snapshot is the table as main reads it, or read it last; at is its revision and last that of
	// the snapshot before. rest is the unread part in the order of revisions, snapshots the number
	// of snapshots. waits: a caller waits for the pending rows of the snapshot.
	snapshot  map[string]row
	at, last  uint64
	waits     bool
	rest      []row
	snapshots int
	// leftover has the changes that main has read and not handed over: their lane was full, or a
	// round did not reach them.
	leftover []row
	// mixed: an operation on a change that main did not hand over was run since the snapshot was
	// taken.
	mixed bool
	// seen has the revisions that the catch-up cursor has handed over. mainFirst: main was first in
	// the last round.
	catchUp   *catchUp
	seen      map[uint64]bool
	mainFirst bool
	// pendingSince has the revision at which each pendingID was first written.
	pendingSince map[uint64]uint64
}

// catchUp is the position of the catch-up cursor: it has read or left out the objects up to upTo,
// and read the deletions above deletedAfter up to deletedUpTo.
type catchUp struct {
	upTo, deletedAfter, deletedUpTo uint64
	// from: no object above it was left out.
	from uint64
}

// asks reports whether a row asks for an operation.
func (r row) asks() bool {
	return r.deleted || r.status == statusPending || r.status == statusRefreshing
}

// cameBy returns the lane of a row that a cursor hands over; cursor is the lane of changed objects.
func (r row) cameBy(cursor Lane) Lane {
	switch {
	case r.deleted:
		return Deletion
	case r.status == statusRefreshing:
		return Refresh
	}
	return cursor
}

// saw reports whether the change with a revision has been observed.
func (c *cursors) saw(revision uint64) bool { return revision <= c.observed || c.seen[revision] }

// sawAll reports whether everything has been observed.
func (w *world) sawAll() bool { return w.observed == w.revision && len(w.leftover) == 0 }

// follow opens a catch-up cursor, if main is behind.
func (w *world) follow() {
	if w.catchUp == nil && !w.sawAll() {
		w.catchUp = &catchUp{from: w.at, upTo: w.at, deletedAfter: w.revision, deletedUpTo: w.revision}
	}
}

// jump makes the catch-up cursor leave out the objects that it has not read.
func (w *world) jump() {
	if w.catchUp != nil {
		w.catchUp.upTo = w.revision
		w.catchUp.from = w.revision
	}
}

// observe hands over the changes of a snapshot, as many as there is room for.
func (w *world) observe(snapshot map[string]row, revision uint64, waits func() bool) {
	w.mainFirst = !w.mainFirst && w.catchUp != nil && len(w.rest)+len(w.leftover) > 0
	if w.mainFirst {
		w.observeMain(snapshot, revision, waits)
	}
	if w.catchUp != nil {
		w.observeCatchUp(inOrder(snapshot), revision)
	}
	if !w.mainFirst {
		w.observeMain(snapshot, revision, waits)
	}
	if w.catchUp != nil && w.at == revision && w.observed == revision && w.core.LaneSize(Backlog) == 0 {
		w.catchUp = nil
	}
}

func inOrder(snapshot map[string]row) []row {
	return slices.SortedFunc(maps.Values(snapshot), func(a, b row) int { return cmp.Compare(a.revision, b.revision) })
}

func (w *world) observeMain(snapshot map[string]row, revision uint64, waits func() bool) {
	held := len(w.leftover) > 0
	for len(w.leftover) > 0 {
		if !w.handOver(w.leftover[0], snapshot) {
			return
		}
		w.leftover = w.leftover[1:]
	}
	switch {
	case len(w.rest) > 0:
	case held:
		// A round never has changes of two snapshots.
		w.observed = max(w.observed, w.at)
		return
	default:
		for _, r := range inOrder(snapshot) {
			if r.revision > w.at {
				w.rest = append(w.rest, r)
			}
		}
		// Without a status each version asks for itself.
		w.last, w.waits = w.at, waits() && w.ledger == nil
		w.snapshot, w.at, w.mixed = snapshot, revision, false
		w.snapshots++
	}
	for len(w.rest) > 0 {
		r := w.rest[0]
		w.rest = w.rest[1:]
		if !r.deleted && w.dealtWith(r, false) {
			w.observed = r.revision
			continue
		}
		if !w.handOver(r, snapshot) {
			w.leftover = append(w.leftover, r)
			return
		}
	}
	w.observed = max(w.observed, w.at)
}

// handOver hands the core a row that main has read, and reports whether there was room.
func (w *world) handOver(r row, snapshot map[string]row) bool {
	lane, overtaken := r.cameBy(Backlog), w.overtaken(r, snapshot)
	switch {
	case !r.asks():
		w.settled(r)
	case w.full(lane):
		return false
	case r.deleted && (overtaken || w.catchUp != nil && r.revision > w.catchUp.deletedAfter && r.revision <= w.catchUp.deletedUpTo):
		w.core.ObserveSeenDeletion(r, r.revision)
		checkInRound(w.t, w.core)
		if w.model.keys[r.key] != nil {
			w.model.observe(r, r.revision, r.revision, true, Deletion)
		}
	case overtaken && w.model.keys[r.key] == nil:
	default:
		w.tell(r, lane)
	}
	w.observed = r.revision
	return true
}

// observeCatchUp hands over what was written after main's snapshot: deletions, and objects.
func (w *world) observeCatchUp(changes []row, revision uint64) {
	for _, r := range changes {
		switch {
		case !r.deleted || r.revision <= w.catchUp.deletedUpTo:
			continue
		case r.revision <= w.observed:
		case w.full(Deletion):
			w.observeCatchUpObjects(changes, revision)
			return
		default:
			// The snapshot has at most one change of a key, so no later version has overtaken it.
			w.tell(r, Deletion)
			w.seen[r.revision] = true
		}
		w.catchUp.deletedUpTo = r.revision
	}
	w.catchUp.deletedUpTo = max(w.catchUp.deletedUpTo, revision)
	w.observeCatchUpObjects(changes, revision)
}

func (w *world) observeCatchUpObjects(changes []row, revision uint64) {
	if w.catchUp.upTo < w.at {
		w.catchUp.from, w.catchUp.upTo = w.at, w.at
	}
	defer func() { w.ledger.extend(span{w.catchUp.from, w.catchUp.upTo}) }()
	for _, r := range changes {
		lane := r.cameBy(Fresh)
		switch {
		case r.deleted || r.revision <= w.catchUp.upTo:
			continue
		case w.dealtWith(r, true):
			w.catchUp.upTo = r.revision
			continue
		case !r.asks():
			w.settled(r)
		case w.full(lane):
			return
		default:
			w.tell(r, lane)
		}
		w.seen[r.revision] = true
		w.catchUp.upTo = r.revision
	}
	w.catchUp.upTo = max(w.catchUp.upTo, revision)
}

// full reports whether the round has no room for another change of a lane.
func (w *world) full(lane Lane) bool {
	for l := range NumLanes {
		same(w.t, w.model.full(l), w.core.Full(l), "lane %s is full", l)
	}
	return w.core.Full(lane)
}

func (w *world) tell(r row, lane Lane) {
	w.core.Observe(r, r.revision, w.since(r), r.deleted, lane)
	checkInRound(w.t, w.core)
	w.model.observe(r, r.revision, w.since(r), r.deleted, lane)
}

// since returns the revision since which a row is unreconciled: its own or, if a caller waits for
// the pending rows of main's snapshot, that of the first version that asked for the same.
func (w *world) since(r row) uint64 {
	if !w.waits || r.deleted {
		return r.revision
	}
	return min(r.revision, max(w.pendingSince[r.pendingID], w.last+1))
}

// saidBy returns the RowStatus of a status that asks for no operation.
func saidBy(status string) RowStatus {
	switch status {
	case statusUnset:
		return RowUnset
	case statusDone:
		return RowDone
	}
	return RowFailed
}

// settled hands over a row that asks for no operation, if the core needs it.
func (w *world) settled(r row) {
	says := saidBy(r.status)
	if says == RowUnset && w.core.Tracks() || says != RowUnset && w.core.NeedsSettled() {
		forgotten := w.model.observeSettled(r, r.revision, says)
		require.Equal(w.t, forgotten, w.core.ObserveSettled(r, r.revision, says), "forgotten result for %q", r.key)
		checkInRound(w.t, w.core)
	}
}

// takeBack puts an item back, into the core or among the leftover changes.
func (w *world) takeBack(it *Operation[row]) {
	keeps := w.model.putBack(it)
	require.Equal(w.t, keeps, w.core.PutBack(it), "whether the core keeps %q", it.Obj.key)
	checkInRound(w.t, w.core)
	if !keeps {
		w.leftover = append([]row{it.Obj}, w.leftover...)
		w.observed = min(w.observed, it.Revision-1)
	}
}
