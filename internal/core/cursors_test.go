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

func inOrder(snapshot map[string]row) []row {
	return slices.SortedFunc(maps.Values(snapshot), func(a, b row) int { return cmp.Compare(a.revision, b.revision) })
}

func (w *world) takeSnapshot(revision uint64, waits func() bool) {
	// Without a status each version asks for itself.
	w.last, w.waits = w.at, waits() && w.ledger == nil
	w.handed, w.at, w.mixed = map[string]row{}, revision, false
	w.snapshots++
}

// source is the source of the core of a world, in one round.
type source struct {
	anyLane
	*world
	snapshot map[string]row
	revision uint64
	// calls are the calls of Next. told are what the core was told in the call that has begun.
	calls []asked
	told  []func()
}

// begin begins a round.
func (s *source) begin(waits func() bool) {
	if s.catchUp != nil || len(s.rest) > 0 {
		return
	}
	for _, r := range inOrder(s.snapshot) {
		if r.revision > s.at {
			s.rest = append(s.rest, r)
		}
	}
	s.takeSnapshot(s.revision, waits)
}

// Next returns the next change for a place of a lane.
func (s *source) Next(lane Lane) (change Change[row], ok bool) {
	switch {
	case s.catchUp == nil:
		change, ok = s.nextOfMain(lane)
	case lane == Fresh:
		change, ok = s.nextOfNewest()
	case lane == Deletion:
		change, ok = s.nextDeletion()
	case lane == Backlog:
		change, ok = s.nextOfSnapshot()
	}
	s.calls = append(s.calls, asked{lane, s.told, change, ok})
	s.told = nil
	return change, ok
}

// changeOf returns the change of a row.
func (s *source) changeOf(r row, lane Lane) Change[row] {
	return Change[row]{Obj: r, Revision: r.revision, Since: s.since(r), Deleted: r.deleted, Lane: r.cameBy(lane)}
}

// wants reports whether a row that was read asks for an operation.
func (s *source) wants(r row) bool {
	switch {
	case !r.deleted && s.appliedEarly(r):
		return false
	case !r.asks():
		s.settled(r)
		return false
	}
	// If the object is back, its row says what to do.
	return !r.deleted || s.snapshot[r.key].deleted
}

func (s *source) nextOfMain(lane Lane) (change Change[row], ok bool) {
	for len(s.rest) > 0 {
		r := s.rest[0]
		if r.asks() && r.cameBy(Backlog) != lane {
			return change, false
		}
		s.rest, s.observed, s.handed[r.key] = s.rest[1:], r.revision, r
		if s.wants(r) {
			return s.changeOf(r, Backlog), true
		}
	}
	s.observed = max(s.observed, s.at)
	return change, false
}

func (s *source) nextDeletion() (change Change[row], ok bool) {
	for _, r := range inOrder(s.snapshot) {
		if r.deleted && r.revision > s.catchUp.deleted {
			s.catchUp.deleted = r.revision
			return s.changeOf(r, Deletion), true
		}
	}
	s.catchUp.deleted = max(s.catchUp.deleted, s.revision)
	return change, false
}

// nextOfNewest returns the next row of the newest range. Those to refresh go to their lane.
func (s *source) nextOfNewest() (change Change[row], ok bool) {
	newest := s.catchUp.newest()
	for _, r := range inOrder(s.snapshot) {
		if r.deleted || r.revision <= newest.after {
			continue
		}
		newest.after = r.revision
		if !s.wants(r) {
			continue
		}
		read := s.changeOf(r, Fresh)
		if read.Lane == Fresh {
			return read, true
		}
		s.core.Observe(read)
		s.told = append(s.told, func() { s.model.observeReady(read) })
	}
	newest.after = max(newest.after, s.revision)
	return Change[row]{}, false
}

// nextOfSnapshot returns the next key of main's snapshot, in the version that the table has.
func (s *source) nextOfSnapshot() (change Change[row], ok bool) {
	c := s.catchUp
	for c.reads && len(s.rest) > 0 && s.rest[0].revision <= c.end {
		r := s.rest[0]
		s.rest = s.rest[1:]
		if r.deleted || !c.isUnread(r.revision) {
			continue
		}
		c.passed(r.revision)
		if !s.wants(r) {
			continue
		}
		if now := s.snapshot[r.key]; !now.deleted && (now.revision == r.revision || now.asks() && !s.dealtWith(now)) {
			s.handed[r.key] = r
			return Change[row]{Obj: now, Revision: now.revision, Since: s.since(r), Lane: Backlog}, true
		}
	}
	if c.reads {
		c.passed(c.end)
		c.reads = false
	}
	return change, false
}

// end ends a round.
func (s *source) end(waits func() bool) {
	c := s.catchUp
	if c == nil {
		return
	}
	if !c.reads && c.newest().after == s.revision && len(c.unread) > 1 {
		s.takeSnapshot(s.revision, waits)
		s.rest = inOrder(s.snapshot)
		c.reads, c.end = true, c.unread[len(c.unread)-2].upTo
	}
	read := c.unread[0].after
	if read < s.revision {
		read = min(read, s.at)
	}
	s.observed = max(s.observed, min(read, c.deleted))
	if s.observed == s.revision && s.core.Index.LaneSize(Backlog) == 0 {
		s.catchUp, s.at, s.rest = nil, s.revision, nil
	}
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

// settled tells the core of a row that asks for no operation.
func (s *source) settled(r row) {
	says := saidBy(r.status)
	forgotten := s.core.ObserveSettled(r, r.revision, says)
	s.told = append(s.told, func() {
		require.Equal(s.t, s.model.observeSettled(r, r.revision, says), forgotten, "whether %q is forgotten", r.key)
	})
}
