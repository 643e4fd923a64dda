// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"slices"
	"time"

	"github.com/cilium/statedb"

	ledgers "github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/reconciler"
)

// This file checks (g): what the ledgers show, after every commit.

// commits calls a function after each commit of any table.
type commits struct {
	*statedb.ExpVarMetrics
	f func()
}

func (c *commits) WriteTxnDuration(string, []string, time.Duration) { c.f() }

// mostChecked bounds the rows of a table whose statuses are checked: the check reads all of them.
const mostChecked = 150

// show begins or ends the checks of the statuses. They end before a loop is replaced, since the next one begins
// with tables beside that are empty.
func (s *slot) show(shows bool) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	s.shows, s.mark = shows, 0
	for _, l := range r.ledgers[s.index] {
		l.shownAt = 0
	}
}

// checkStatuses checks the status of each row. The transaction begins with the record locked, so that the checks are
// in the order of the commits.
func (h *history) checkStatuses() {
	r := h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	txn := h.db.ReadTxn()
	if h.table == nil || h.table.NumObjects(txn) > mostChecked {
		return
	}
	for _, s := range h.slots {
		if !s.shows {
			continue
		}
		if s.beside {
			mark := s.markOf(txn)
			if mark.Revision < s.mark {
				r.violateLocked("(g) the mark of %d goes back from %d to %d", s.index, s.mark, mark.Revision)
			}
			s.mark = mark.Revision
		}
		for row, revision := range h.table.All(txn) {
			if s.beside {
				s.checkBeside(txn, row, revision)
			} else {
				s.checkInRow(row)
			}
		}
	}
}

// markOf returns the mark of a loop beside the table.
func (s *slot) markOf(txn statedb.ReadTxn) (mark ledgers.Mark) {
	name := s.current().loop.Outcomes().Name()
	name = name[:len(name)-len("outcomes")] + "mark"
	for m := range s.h.db.GetTable(txn, name).(statedb.Table[*ledgers.Mark]).All(txn) {
		mark = *m
	}
	return mark
}

// checkInRow checks that a row is Done only if its wish was carried out, or its writer said so.
func (s *slot) checkInRow(row *historyRow) {
	r, number := s.h.record, row.Wishes[s.index]
	if s.get(row).Kind != reconciler.StatusKindDone {
		return
	}
	l := r.ledger(s.index, row.ID)
	carriedOut := slices.ContainsFunc(l.operations, func(o *operation) bool { return o.applied && o.wish == number })
	vouchedFor := slices.ContainsFunc(l.wishes, func(w wish) bool { return w.number == number && w.kind == vouched })
	if !carriedOut && !vouchedFor {
		r.violateLocked("(g) key %d is Done in %d, and wish %d was not carried out\n%s", row.ID, s.index, number, l)
	}
}

// checkBeside compares the status of one version of a row with the operations on that version.
func (s *slot) checkBeside(txn statedb.ReadTxn, row *historyRow, revision statedb.Revision) {
	r, by := s.h.record, s.current()
	l := r.ledger(s.index, row.ID)
	st, _ := by.loop.Status(txn, row)
	ended := map[reconciler.StatusKind]bool{}
	var last *operation
	for _, o := range l.operations {
		if o.by == by && o.over && !o.deletes {
			last = o
			if o.revision == revision {
				ended[o.kind] = true
			}
		}
	}
	wrong := func(why string) {
		r.violateLocked("(g) key %d at revision %d is %s beside in %d, %s; the mark is %v\n%s",
			row.ID, revision, st, s.index, why, s.markOf(txn), l)
	}
	switch {
	// An update that is a deletion, and asked to be run again, is Blocked.
	case st.Kind == reconciler.StatusKindBlocked && ended[reconciler.StatusKindDone]:
	case st.Kind != reconciler.StatusKindPending && !ended[st.Kind]:
		wrong("and no update of this version has ended so")
	case st.Kind == reconciler.StatusKindPending && l.shownAt == revision && l.shown != reconciler.StatusKindPending &&
		// The outcome row goes as soon as an update succeeds; the mark may follow later.
		(l.shown == reconciler.StatusKindDone || last == nil || !last.applied):
		wrong("and was " + l.shown.String() + " before")
	}
	l.shown, l.shownAt = st.Kind, revision
}

// checkTables checks that a loop beside the table without work has no outcomes, and a mark at the end of the table.
func (s *slot) checkTables() {
	if !s.beside {
		return
	}
	txn := s.h.db.ReadTxn()
	if n := s.running.loop.Outcomes().NumObjects(txn); n > 0 {
		s.h.record.violate("(g) %d outcomes of %d are left", n, s.index)
	}
	if mark := s.markOf(txn); mark.Revision != s.h.table.Revision(txn) || len(mark.Intervals) > 0 {
		s.h.record.violate("(g) the mark of %d is %v, and the table is at %d", s.index, mark, s.h.table.Revision(txn))
	}
}

// checkUnwritten checks that loops beside the table have not written it.
func (h *history) checkUnwritten() {
	for _, s := range h.slots {
		if !s.beside {
			return
		}
	}
	if now := h.table.Revision(h.db.ReadTxn()); now != h.written.Load() {
		h.record.violate("(g) the table is at %d, and was written last at %d", now, h.written.Load())
	}
}
