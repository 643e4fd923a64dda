// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
)

// cursors is how far a world has looked at its table. The main cursor finishes a snapshot
// before it takes the next. While there is a catch-up cursor, that reads what is newer.
type cursors struct {
	// observed is the revision up to which main has handed over all changes.
	observed uint64
	// snapshot is the table as main reads it, or read it last, and at its revision; rest is
	// what main has not read of it, in the order of revisions. snapshots counts them.
	// Somebody waits for what is pending in it, if waits; last is the revision of the one
	// before it.
	snapshot  map[string]row
	at, last  uint64
	waits     bool
	rest      []row
	snapshots int
	// leftover is what main has read and not handed over: what the lane of which was full, and
	// what a round did not get to.
	leftover []row
	// mixed: something that main did not hand over was run since the snapshot was taken.
	mixed bool
	// seen are the revisions that the catch-up cursor has handed over. mainFirst: main was first in the
	// last look.
	catchUp   *catchUp
	seen      map[uint64]bool
	mainFirst bool
	// pendingSince are the revisions at which wishes were first written.
	pendingSince map[uint64]uint64
}

// catchUp is what a second cursor has read: objects up to a revision, and the deletions between
// two. It may pass over objects.
type catchUp struct {
	upTo, deletedAfter, deletedUpTo uint64
}

// asks reports whether a row is to be worked on.
func (r row) asks() bool {
	return r.deleted || r.status == statusPending || r.status == statusRefreshing
}

// cameBy returns the lane by which a cursor hands over a row.
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

// follow opens a catch-up cursor, if main has not seen all there is.
func (w *world) follow() {
	if w.catchUp == nil && !w.sawAll() {
		w.catchUp = &catchUp{upTo: w.at, deletedAfter: w.revision, deletedUpTo: w.revision}
	}
}

// jump makes the catch-up cursor pass over the objects that it has not read.
func (w *world) jump() {
	if w.catchUp != nil {
		w.catchUp.upTo = w.revision
	}
}

// observe hands over the changes of a snapshot, as many as there is room for.
func (w *world) observe(snapshot map[string]row, revision uint64, waits func() bool) {
	w.mainFirst = !w.mainFirst && w.catchUp != nil && len(w.rest)+len(w.leftover) > 0
	if w.mainFirst {
		w.observeMain(snapshot, revision, waits)
	}
	if w.catchUp != nil {
		w.observeTip(inOrder(snapshot), revision)
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
		if !w.handOver(w.leftover[0]) {
			return
		}
		w.leftover = w.leftover[1:]
	}
	switch {
	case len(w.rest) > 0:
	case held:
		// No round has changes of two snapshots.
		w.observed = max(w.observed, w.at)
		return
	default:
		for _, r := range inOrder(snapshot) {
			if r.revision > w.at {
				w.rest = append(w.rest, r)
			}
		}
		w.last, w.waits = w.at, waits()
		w.snapshot, w.at, w.mixed = snapshot, revision, false
		w.snapshots++
	}
	for len(w.rest) > 0 {
		r := w.rest[0]
		w.rest = w.rest[1:]
		if !w.handOver(r) {
			w.leftover = append(w.leftover, r)
			return
		}
	}
	w.observed = max(w.observed, w.at)
}

// handOver makes the core know what main has read, and reports whether there was room.
func (w *world) handOver(r row) bool {
	lane := r.cameBy(Backlog)
	switch {
	case !r.asks():
		w.settled(r)
	case w.full(lane):
		return false
	case r.deleted && w.catchUp != nil && r.revision > w.catchUp.deletedAfter && r.revision <= w.catchUp.deletedUpTo:
		w.core.ObserveSeenDeletion(r, r.revision)
		if w.model.keys[r.key] != nil {
			w.model.observe(r, r.revision, r.revision, true, lane)
		}
	default:
		w.tell(r, lane)
	}
	w.observed = r.revision
	return true
}

// observeTip hands over what came after main's snapshot: deletions, and objects.
func (w *world) observeTip(changes []row, revision uint64) {
	for _, r := range changes {
		switch {
		case !r.deleted || r.revision <= w.catchUp.deletedUpTo:
			continue
		case r.revision <= w.observed:
		case w.full(Deletion):
			w.observeTipObjects(changes, revision)
			return
		default:
			w.tell(r, Deletion)
			w.seen[r.revision] = true
		}
		w.catchUp.deletedUpTo = r.revision
	}
	w.catchUp.deletedUpTo = max(w.catchUp.deletedUpTo, revision)
	w.observeTipObjects(changes, revision)
}

func (w *world) observeTipObjects(changes []row, revision uint64) {
	w.catchUp.upTo = max(w.catchUp.upTo, w.at)
	for _, r := range changes {
		lane := r.cameBy(Fresh)
		switch {
		case r.deleted || r.revision <= w.catchUp.upTo:
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
	w.model.observe(r, r.revision, w.since(r), r.deleted, lane)
}

// since returns the revision since which a row is unreconciled: its own, or, if a wait is for
// what was pending when main took its snapshot, that of the first version.
func (w *world) since(r row) uint64 {
	if !w.waits || r.deleted {
		return r.revision
	}
	return min(r.revision, max(w.pendingSince[r.pendingID], w.last+1))
}

// saidBy returns what a status says that asks for nothing.
func saidBy(status string) RowStatus {
	switch status {
	case statusUnset:
		return RowUnset
	case statusDone:
		return RowDone
	}
	return RowFailed
}

// settled tells of a row that asks for nothing.
func (w *world) settled(r row) {
	says := saidBy(r.status)
	if says == RowUnset && w.core.Tracks() || says != RowUnset && w.core.NeedsSettled() {
		forgotten := w.model.observeSettled(r, r.revision, says)
		require.Equal(w.t, forgotten, w.core.ObserveSettled(r, r.revision, says), "%q is forgotten", r.key)
	}
}

// takeBack gives an item back to where it came from.
func (w *world) takeBack(it *Item[row]) {
	keeps := w.model.putBack(it)
	require.Equal(w.t, keeps, w.core.PutBack(it), "the core keeps %q", it.Obj.key)
	if !keeps {
		w.leftover = append([]row{it.Obj}, w.leftover...)
		w.observed = min(w.observed, it.Revision-1)
	}
}
