// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"

	"github.com/stretchr/testify/require"
)

// cursors records which changes of a world's table were read. The main cursor reads a snapshot to its end, in
// the order of revisions, before it takes the next. While the target is slow, any newer rows may be read ahead
// of it.
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
	mixed bool
	// slow: rows may be read ahead of main. ahead has the highest revision of each key for which that was done; beside
	// a ledger also for which a version was applied before main has read it.
	slow  bool
	ahead map[string]uint64
	// pendingSince has the revision at which each pendingID was first written.
	pendingSince map[uint64]uint64
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

// isAhead reports whether a row was dealt with before main reads it.
func (c *cursors) isAhead(r row) bool { return r.revision <= c.ahead[r.key] }

// saw reports whether a row was observed.
func (c *cursors) saw(r row) bool { return r.revision <= c.observed || c.isAhead(r) }

// sawAll reports whether everything has been observed.
func (w *world) sawAll() bool { return w.observed == w.revision && len(w.rest) == 0 }

func inOrder(snapshot map[string]row, after uint64) (rows []row) {
	for _, r := range snapshot {
		if r.revision > after {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.revision, b.revision) })
	return rows
}

// source is the source of the core of a world, in one round.
type source struct {
	anyLane
	*world
	snapshot map[string]row
	revision uint64
	// picks returns which of n rows is read ahead of main; -1 for none.
	picks func(n int) int
	// calls are the calls of Next. told are what the core was told in the call that has begun.
	calls []asked
	told  []func()
}

// begin begins a round.
func (s *source) begin(waits func() bool) {
	if len(s.rest) > 0 {
		return
	}
	if s.at == s.revision && s.core.Index.LaneSize(Backlog) == 0 {
		s.slow = false
	}
	s.rest = inOrder(s.snapshot, s.at)
	// Without a status each version asks for itself.
	s.last, s.waits = s.at, waits() && s.ledger == nil
	s.handed, s.at, s.mixed = map[string]row{}, s.revision, false
	s.snapshots++
}

// Next returns the next change for a place of a lane.
func (s *source) Next(lane Lane) (change Change[row], ok bool) {
	if s.slow && (lane == Fresh || lane == Deletion) {
		change, ok = s.nextAhead(lane)
	}
	if !ok {
		change, ok = s.nextOfMain(lane)
	}
	s.calls = append(s.calls, asked{lane, s.told, change, ok})
	s.told = nil
	return change, ok
}

// nextAhead reads a row ahead of main. One to refresh goes to its lane.
func (s *source) nextAhead(lane Lane) (change Change[row], ok bool) {
	rows := slices.DeleteFunc(inOrder(s.snapshot, s.at), func(r row) bool {
		return s.isAhead(r) || r.deleted != (lane == Deletion)
	})
	i := s.picks(len(rows))
	if i < 0 {
		return change, false
	}
	r := rows[i]
	s.ahead[r.key] = r.revision
	if !s.wants(r) {
		return change, false
	}
	read := s.changeOf(r, Fresh)
	if read.Lane == lane {
		return read, true
	}
	s.core.Observe(read)
	s.told = append(s.told, func() { s.model.observeReady(read) })
	return change, false
}

// changeOf returns the change of a row.
func (s *source) changeOf(r row, lane Lane) Change[row] {
	return Change[row]{Obj: r, Revision: r.revision, Since: s.since(r), Deleted: r.deleted, Lane: r.cameBy(lane)}
}

// wants reports whether a row that was read asks for an operation.
func (s *source) wants(r row) bool {
	if !r.asks() {
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
		s.rest, s.observed = s.rest[1:], r.revision
		if s.isAhead(r) {
			continue
		}
		s.handed[r.key] = r
		if !s.wants(r) {
			continue
		}
		now := s.snapshot[r.key]
		if !s.slow || r.deleted || now.revision == r.revision {
			return s.changeOf(r, Backlog), true
		}
		// While the target is slow, main takes only keys from its snapshot.
		if now.asks() && !now.deleted && !s.dealtWith(now) {
			return Change[row]{Obj: now, Revision: now.revision, Since: s.since(r), Lane: lane}, true
		}
		delete(s.handed, r.key)
	}
	s.observed = max(s.observed, s.at)
	return change, false
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
