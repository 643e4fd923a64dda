// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/status"
)

const (
	// maxRows is the largest number of rows that are marked in one write transaction. That locks the
	// table for about 0.25 ms. Four times as many rows would lock it four times as long, and save
	// little in total.
	maxRows = 256
	// maxPause bounds the time that the reconciler is given to attempt rows that were marked again.
	maxPause = 100 * time.Millisecond
)

// marking is the work of one round of a trigger: it finds rows in a snapshot that has the changes,
// and then marks them.
type marking[Obj comparable] struct {
	cfg *reconciler.Config[Obj]
	txn statedb.ReadTxn
	// fence is a status ID made after the snapshot was taken. A row with a higher ID was written
	// after the changes, so an operation that starts from it sees the changes.
	fence uint64
	rows  []dependent[Obj]
	// outrun: a row was marked that had been marked before and not attempted since. revision is that
	// of the table after all rows are marked.
	outrun   bool
	revision statedb.Revision
}

// dependent is a row in the snapshot.
type dependent[Obj any] struct {
	object   Obj
	revision statedb.Revision
}

func newMarking[Obj comparable](cfg *reconciler.Config[Obj]) *marking[Obj] {
	m := &marking[Obj]{cfg: cfg, txn: cfg.DB.ReadTxn()}
	m.fence = status.Pending().ID
	return m
}

// wants reports whether a row with the status has to be marked. A Pending or Refreshing row may have
// to be, because an operation may be running since before the change.
func (m *marking[Obj]) wants(s status.Status) bool {
	switch s.Kind {
	case status.KindDone, status.KindError, status.KindBlocked:
		return true
	case status.KindPending, status.KindRefreshing:
		return s.ID <= m.fence
	default:
		return false
	}
}

// marked returns a clone of a row with the mark: Refreshing if the target has the object, else
// Pending.
func (m *marking[Obj]) marked(row Obj) Obj {
	mark := status.Pending
	if kind := m.cfg.GetStatus(row).Kind; kind == status.KindDone || kind == status.KindRefreshing {
		mark = status.Refreshing
	}
	return m.cfg.SetStatus(m.cfg.Clone(row), mark())
}

// add adds rows of the snapshot to those that will be marked.
func (m *marking[Obj]) add(rows iter.Seq2[Obj, statedb.Revision]) {
	for object, revision := range rows {
		if m.wants(m.cfg.GetStatus(object)) {
			m.rows = append(m.rows, dependent[Obj]{object, revision})
		}
	}
}

// mark marks each row once. It returns false if ctx ended before all were marked. The order is that
// in which the rows were written, so that rows which wait for the reconciler keep their order.
func (m *marking[Obj]) mark(ctx context.Context) bool {
	slices.SortFunc(m.rows, func(a, b dependent[Obj]) int { return cmp.Compare(a.revision, b.revision) })
	m.rows = slices.CompactFunc(m.rows, func(a, b dependent[Obj]) bool { return a.revision == b.revision })
	for batch := range slices.Chunk(m.rows, maxRows) {
		if ctx.Err() != nil {
			return false
		}
		m.write(batch)
	}
	return true
}

// write marks a batch in one transaction.
func (m *marking[Obj]) write(batch []dependent[Obj]) {
	cfg := m.cfg
	for i := range batch {
		m.outrun = m.outrun || cfg.GetStatus(batch[i].object).IsPendingOrRefreshing()
		batch[i].object = m.marked(batch[i].object)
	}
	wtxn := cfg.DB.WriteTxn(cfg.Table)
	// A panic in a function of the program must not leave the table locked.
	defer wtxn.Abort()
	for i := range batch {
		current, found, err := cfg.Table.CompareAndSwap(wtxn, batch[i].revision, batch[i].object)
		if found && errors.Is(err, statedb.ErrRevisionNotEqual) && m.wants(cfg.GetStatus(current)) {
			// This cannot fail: the table is locked.
			_, _, _ = cfg.Table.Insert(wtxn, m.marked(current))
		}
	}
	m.revision = cfg.Table.Revision(wtxn.Commit())
}
