// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// marker refreshes rows by marks in the table.
type marker[Obj any] struct {
	rows *rows.Rows[Obj]
	all  *walkCall[Obj]
	gate *gate

	interval time.Duration
	// seen is the revision up to which the age of rows has been checked.
	seen statedb.Revision
}

func (m *marker[Obj]) begin(set Settings) { m.interval, m.seen = set.Interval, 0 }

func (m *marker[Obj]) collect(size int) (b batch[Obj], next time.Duration) {
	now := time.Now()
	b = m.all.collect(m.rows, size, func(w *walk[Obj], row Row[Obj]) bool {
		s := m.rows.Asked(row.Object)
		// A status written after the request is recent enough. A status with a time in the future
		// is from a clock that was set back afterwards.
		return s.Kind == status.KindDone && (!s.UpdatedAt.After(w.at) || s.UpdatedAt.After(now))
	})
	if len(b.rows) > 0 {
		return b, 0
	}
	return m.collectAged(size)
}

// collectAged returns up to size rows that are old enough. It reads the table in the order of
// revisions, after the last row it checked, and stops at the first row that is too young. If there
// are none, it returns the time until the next row is old enough.
func (m *marker[Obj]) collectAged(size int) (b batch[Obj], next time.Duration) {
	b.advance = func() {}
	if m.interval == 0 {
		return b, 0
	}
	txn := m.rows.DB.ReadTxn()
	now := time.Now()
	for object, revision := range m.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](m.seen+1)) {
		s := m.rows.Asked(object)
		// A status with a time in the future is from a clock that was set back afterwards.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < m.interval {
			return b, m.interval - age
		}
		m.seen = revision
		if s.Kind != status.KindDone {
			continue
		}
		b.rows = append(b.rows, Row[Obj]{object, revision})
		if len(b.rows) == size {
			break
		}
	}
	return b, m.interval
}

func (m *marker[Obj]) give(b batch[Obj]) <-chan struct{} { return m.gate.wait(m.write(b.rows)) }

// write marks the rows of a batch in one transaction, except those whose status has changed. It
// returns the revisions of the table before and after.
func (m *marker[Obj]) write(batch []Row[Obj]) (before, after statedb.Revision) {
	at := time.Now()
	marked := func(object Obj) Obj {
		return m.rows.Writable.SetStatus(m.rows.Writable.Clone(object), status.RefreshingAt(at))
	}
	rows := make([]Obj, len(batch))
	for i := range batch {
		rows[i] = marked(batch[i].Object)
	}
	wtxn := m.rows.DB.WriteTxn(m.rows.Table)
	defer wtxn.Abort()
	before = m.rows.Table.Revision(wtxn)
	for i := range batch {
		if _, _, err := m.rows.Writable.Table.CompareAndSwap(wtxn, batch[i].Revision, rows[i]); err == nil {
			continue
		}
		// Another reconciler may have written the row.
		row, _, found := m.rows.Get(wtxn, batch[i].Object)
		if !found {
			continue
		}
		was, is := m.rows.Asked(batch[i].Object), m.rows.Asked(row)
		if is.Kind == status.KindDone && is.UpdatedAt.Equal(was.UpdatedAt) {
			_, _, _ = m.rows.Writable.Table.Insert(wtxn, marked(row))
		}
	}
	return before, m.rows.Table.Revision(wtxn.Commit())
}
