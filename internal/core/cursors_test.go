// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/stretchr/testify/require"
)

// cursors is the state of the two cursors of a world. The main cursor reads a snapshot to its end
// before it takes the next. The catch-up cursor, while it exists, reads what is newer.
type cursors struct {
	// observed is the revision up to which all changes were handed over.
	observed uint64
	// handed has the rows of main's snapshot that main has handed over. at is the revision of the snapshot
	// and last that of the one before. rest is the unread part in the order of revisions, snapshots the number
	// of snapshots. waits: a caller waits for the pending rows of the snapshot.
	handed    map[string]row
	at, last  uint64
	waits     bool
	rest      []row
	snapshots int
	// mixed: an operation on a change that main did not hand over was run since the snapshot was
	// taken.
	mixed   bool
	catchUp *catchUp
	// pendingSince has the revision at which each pendingID was first written.
	pendingSince map[uint64]uint64
}

// catchUp has the ranges of revisions whose rows were not read, in rising order: the catch-up cursor reads
// the last one, which has no end, and main the others. Deletions were read up to the revision deleted. reads:
// main has not read its snapshot to its end, which is the revision end.
type catchUp struct {
	unread  []span
	deleted uint64
	reads   bool
	end     uint64
}

// isUnread reports whether rows of a revision were not read.
func (c *catchUp) isUnread(revision uint64) bool {
	return slices.ContainsFunc(c.unread, func(s span) bool { return s.has(revision) })
}

// passed records that main has read the rows up to a revision.
func (c *catchUp) passed(revision uint64) {
	for len(c.unread) > 1 && c.unread[0].upTo <= revision {
		c.unread = c.unread[1:]
	}
	c.unread[0].after = max(c.unread[0].after, revision)
}

func (c *catchUp) newest() *span { return &c.unread[len(c.unread)-1] }

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

// saw reports whether a row was observed.
func (c *cursors) saw(r row) bool {
	switch {
	case r.revision <= c.observed:
		return true
	case c.catchUp == nil:
		return false
	case r.deleted:
		return r.revision <= c.catchUp.deleted
	}
	return !c.catchUp.isUnread(r.revision)
}

// wasRead reports whether the catch-up cursor has read the rows of a revision that main has not reached.
func (c *cursors) wasRead(revision uint64) bool {
	return c.catchUp != nil && !c.catchUp.isUnread(revision)
}

// sawAll reports whether everything has been observed.
func (w *world) sawAll() bool { return w.observed == w.revision && len(w.rest) == 0 }

// follow begins a catch-up cursor, if main is behind.
func (w *world) follow() {
	if w.catchUp != nil || w.sawAll() {
		return
	}
	w.catchUp = &catchUp{unread: []span{{w.at, math.MaxUint64}}, deleted: w.observed}
	if len(w.rest) > 0 {
		w.catchUp.unread = slices.Insert(w.catchUp.unread, 0, span{w.observed, w.at})
		w.catchUp.reads, w.catchUp.end = true, w.at
	}
}

// jump makes the catch-up cursor leave the rows that it has not read to main.
func (w *world) jump() {
	if w.catchUp == nil {
		return
	}
	newest := w.catchUp.newest()
	left := span{newest.after, w.revision}
	newest.after = w.revision
	if last := len(w.catchUp.unread) - 2; w.ledger == nil && last >= 0 {
		w.catchUp.unread[last].upTo = w.revision
	} else if left.after < left.upTo {
		w.catchUp.unread = slices.Insert(w.catchUp.unread, last+1, left)
	}
}

// observe hands over the changes of a snapshot, as many as there is room for.
func (w *world) observe(snapshot map[string]row, revision uint64, waits func() bool) {
	if w.catchUp == nil {
		w.observeMain(snapshot, revision, waits)
		return
	}
	c := w.catchUp
	w.observeDeletions(inOrder(snapshot), revision)
	w.observeNewest(inOrder(snapshot), revision)
	w.observeSnapshot(snapshot)
	if !c.reads && c.newest().after == revision && len(c.unread) > 1 {
		w.takeSnapshot(revision, waits)
		w.rest = inOrder(snapshot)
		c.reads, c.end = true, c.unread[len(c.unread)-2].upTo
	}
	read := c.unread[0].after
	if len(c.unread) == 1 && read < revision {
		read = w.at
	}
	w.observed = max(w.observed, min(read, c.deleted))
	if w.observed == revision && w.core.LaneSize(Backlog) == 0 {
		w.catchUp, w.at, w.rest = nil, revision, nil
	}
}

func inOrder(snapshot map[string]row) []row {
	return slices.SortedFunc(maps.Values(snapshot), func(a, b row) int { return cmp.Compare(a.revision, b.revision) })
}

func (w *world) takeSnapshot(revision uint64, waits func() bool) {
	// Without a status each version asks for itself.
	w.last, w.waits = w.at, waits() && w.ledger == nil
	w.handed, w.at, w.mixed = map[string]row{}, revision, false
	w.snapshots++
}

func (w *world) observeMain(snapshot map[string]row, revision uint64, waits func() bool) {
	if len(w.rest) == 0 {
		for _, r := range inOrder(snapshot) {
			if r.revision > w.at {
				w.rest = append(w.rest, r)
			}
		}
		w.takeSnapshot(revision, waits)
	}
	for len(w.rest) > 0 {
		r := w.rest[0]
		if !w.handOver(r, r.cameBy(Backlog), snapshot) {
			return
		}
		w.rest, w.observed, w.handed[r.key] = w.rest[1:], r.revision, r
	}
	w.observed = max(w.observed, w.at)
}

// handOver hands the core a row, and reports whether there was room.
func (w *world) handOver(r row, lane Lane, now map[string]row) bool {
	switch {
	case !r.deleted && w.appliedEarly(r):
	case !r.asks():
		w.settled(r)
	case w.full(lane):
		return false
	case r.deleted && !now[r.key].deleted:
		// The object is back: its row says what to do.
	default:
		w.tell(r, lane)
	}
	return true
}

// observeDeletions hands over the deletions that were not read.
func (w *world) observeDeletions(changes []row, revision uint64) {
	for _, r := range changes {
		if r.deleted && r.revision > w.catchUp.deleted {
			if !w.handOver(r, Deletion, map[string]row{r.key: r}) {
				return
			}
			w.catchUp.deleted = r.revision
		}
	}
	w.catchUp.deleted = max(w.catchUp.deleted, revision)
}

// observeNewest hands over the rows of the newest range.
func (w *world) observeNewest(changes []row, revision uint64) {
	newest := w.catchUp.newest()
	for _, r := range changes {
		if r.deleted || r.revision <= newest.after {
			continue
		}
		if !w.handOver(r, r.cameBy(Fresh), nil) {
			return
		}
		newest.after = r.revision
	}
	newest.after = max(newest.after, revision)
}

// observeSnapshot hands over the keys of main's snapshot, in the version that the table has.
func (w *world) observeSnapshot(now map[string]row) {
	c := w.catchUp
	if !c.reads {
		return
	}
	for ; len(w.rest) > 0 && w.rest[0].revision <= c.end; w.rest = w.rest[1:] {
		r := w.rest[0]
		if r.deleted || !c.isUnread(r.revision) {
			continue
		}
		if r.asks() && !w.appliedEarly(r) {
			current := now[r.key]
			switch {
			case current.deleted, current.revision != r.revision && (!current.asks() || w.dealtWith(current)):
			case w.full(Backlog):
				return
			default:
				w.tellSince(current, w.since(r), Backlog)
				w.handed[r.key] = r
			}
		} else if !r.asks() {
			w.settled(r)
		}
		c.passed(r.revision)
	}
	c.passed(c.end)
	c.reads = false
}

// full reports whether the round has no room for another change of a lane.
func (w *world) full(lane Lane) bool {
	for l := range NumLanes {
		same(w.t, w.model.full(l), w.core.Full(l), "lane %s is full", l)
	}
	return w.core.Full(lane)
}

func (w *world) tell(r row, lane Lane) { w.tellSince(r, w.since(r), lane) }

func (w *world) tellSince(r row, since uint64, lane Lane) {
	w.core.Observe(r, r.revision, since, r.deleted, lane)
	checkInRound(w.t, w.core)
	w.model.observe(r, r.revision, since, r.deleted, lane)
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

// takeBack puts an item back.
func (w *world) takeBack(it *Operation[row]) {
	w.model.putBack(it)
	w.core.PutBack(it)
	checkInRound(w.t, w.core)
}
