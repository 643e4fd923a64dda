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

// marker has rows applied again.
type marker[Obj any] interface {
	// wants reports whether a row of a snapshot has to be marked. fence is a status ID made after the
	// snapshot was taken.
	wants(row Obj, fence uint64) bool
	// write marks a batch of rows, and returns the revision of the table after that. outrun: a row was
	// marked that had been marked before and not attempted since.
	write(ctx context.Context, batch []dependent[Obj], fence uint64) (revision statedb.Revision, outrun bool, err error)
	// await blocks until the rows that were marked at the revision were attempted, or ctx ends.
	await(ctx context.Context, revision statedb.Revision)
}

func newMarker[Obj any](loop *reconciler.Loop[Obj], cfg *reconciler.Config[Obj]) marker[Obj] {
	if table, ok := cfg.Table.(statedb.RWTable[Obj]); ok && cfg.SetStatus != nil {
		return inRows[Obj]{loop, cfg, table}
	}
	return byKey[Obj]{loop, cfg}
}

// byKey hands objects to the loop, if the rows carry no status.
type byKey[Obj any] struct {
	loop *reconciler.Loop[Obj]
	cfg  *reconciler.Config[Obj]
}

func (byKey[Obj]) wants(Obj, uint64) bool { return true }

func (k byKey[Obj]) write(ctx context.Context, batch []dependent[Obj], _ uint64) (statedb.Revision, bool, error) {
	objs := make([]Obj, len(batch))
	for i := range batch {
		objs[i] = batch[i].object
	}
	running, err := k.loop.Reapply(ctx, objs...)
	return 0, running > 0, err
}

// await gives running operations time to end: no revision shows when they were attempted.
func (byKey[Obj]) await(ctx context.Context, _ statedb.Revision) { <-ctx.Done() }

// inRows marks the status in the rows.
type inRows[Obj any] struct {
	loop  *reconciler.Loop[Obj]
	cfg   *reconciler.Config[Obj]
	table statedb.RWTable[Obj]
}

// wants reports whether a row has to be marked. A Pending or Refreshing row may have to be, because an
// operation may be running since before the change. A row with a higher ID than fence was written
// after the changes, so an operation that starts from it sees them.
func (m inRows[Obj]) wants(row Obj, fence uint64) bool {
	switch s := m.cfg.GetStatus(row); s.Kind {
	case status.KindDone, status.KindError, status.KindBlocked:
		return true
	case status.KindPending, status.KindRefreshing:
		return s.ID <= fence
	default:
		return false
	}
}

// marked returns a clone of a row with the mark: Refreshing if the target has the object, else
// Pending.
func (m inRows[Obj]) marked(row Obj) Obj {
	mark := status.Pending
	if kind := m.cfg.GetStatus(row).Kind; kind == status.KindDone || kind == status.KindRefreshing {
		mark = status.Refreshing
	}
	return m.cfg.SetStatus(m.cfg.Clone(row), mark())
}

// write marks a batch in one transaction.
func (m inRows[Obj]) write(_ context.Context, batch []dependent[Obj], fence uint64) (revision statedb.Revision, outrun bool, err error) {
	for i := range batch {
		outrun = outrun || m.cfg.GetStatus(batch[i].object).IsPendingOrRefreshing()
		batch[i].object = m.marked(batch[i].object)
	}
	wtxn := m.cfg.DB.WriteTxn(m.table)
	// A panic in a function of the program must not leave the table locked.
	defer wtxn.Abort()
	for i := range batch {
		current, found, err := m.table.CompareAndSwap(wtxn, batch[i].revision, batch[i].object)
		if found && errors.Is(err, statedb.ErrRevisionNotEqual) && m.wants(current, fence) {
			// This cannot fail: the table is locked.
			_, _, _ = m.table.Insert(wtxn, m.marked(current))
		}
	}
	return m.table.Revision(wtxn.Commit()), outrun, nil
}

func (m inRows[Obj]) await(ctx context.Context, revision statedb.Revision) {
	_, _, _ = m.loop.WaitUntilReconciled(ctx, revision)
}

// marking is the work of one round of a trigger: it finds rows in a snapshot that has the changes,
// and then marks them.
type marking[Obj any] struct {
	marker[Obj]
	txn statedb.ReadTxn
	// fence is a status ID made after the snapshot was taken.
	fence uint64
	rows  []dependent[Obj]
	// outrun: a row was marked that had been marked before and not attempted since. revision is that
	// of the table after all rows are marked.
	outrun   bool
	revision statedb.Revision
	// over: the loop has stopped, and takes no more objects.
	over bool
}

// dependent is a row in the snapshot.
type dependent[Obj any] struct {
	object   Obj
	revision statedb.Revision
}

func newMarking[Obj any](how marker[Obj], cfg *reconciler.Config[Obj]) *marking[Obj] {
	m := &marking[Obj]{marker: how, txn: cfg.DB.ReadTxn()}
	m.fence = status.Pending().ID
	return m
}

// add adds rows of the snapshot to those that will be marked.
func (m *marking[Obj]) add(rows iter.Seq2[Obj, statedb.Revision]) {
	for object, revision := range rows {
		if m.wants(object, m.fence) {
			m.rows = append(m.rows, dependent[Obj]{object, revision})
		}
	}
}

// mark marks each row once. It returns false if ctx or the loop ended before all were marked. The
// order is that in which the rows were written, so that rows which wait for the reconciler keep their
// order.
func (m *marking[Obj]) mark(ctx context.Context) bool {
	slices.SortFunc(m.rows, func(a, b dependent[Obj]) int { return cmp.Compare(a.revision, b.revision) })
	m.rows = slices.CompactFunc(m.rows, func(a, b dependent[Obj]) bool { return a.revision == b.revision })
	for batch := range slices.Chunk(m.rows, maxRows) {
		if ctx.Err() != nil {
			return false
		}
		revision, outrun, err := m.write(ctx, batch, m.fence)
		if err != nil {
			m.over = ctx.Err() == nil
			return false
		}
		m.revision, m.outrun = revision, m.outrun || outrun
	}
	return true
}
