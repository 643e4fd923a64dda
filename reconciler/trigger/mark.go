// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

const (
	// maxRows is the number of rows after which a round reads no more changes.
	maxRows = 256
	// maxPause bounds the time that running operations are given to end before the next round.
	maxPause = 100 * time.Millisecond
	// settle is the time from the first change of a burst until its rows are verified.
	settle = 100 * time.Millisecond
)

// start is the moment at which a trigger was made before its loop ran.
type start struct {
	// source and table are the revisions of the two tables; both are 0 if the loop ran already.
	source, table statedb.Revision
}

// startOf returns the start of a trigger.
func startOf[Obj any](loop *reconciler.Loop[Obj], cfg *reconciler.Config[Obj], source interface {
	Revision(statedb.ReadTxn) statedb.Revision
}) (s start) {
	txn := cfg.DB.ReadTxn()
	// After the transaction: what the loop does from now on reads what the transaction has.
	if loop.Snapshot(context.Background()).Condition == inspect.ConditionNotStarted {
		s = start{source.Revision(txn), cfg.Table.Revision(txn)}
	}
	return s
}

// marking is the work of one round of a trigger: it finds rows in a snapshot that has the changes,
// and then hands them to the loop.
type marking[Obj any] struct {
	txn  statedb.ReadTxn
	rows []dependent[Obj]
}

// dependent is a row in the snapshot.
type dependent[Obj any] struct {
	object   Obj
	revision statedb.Revision
}

// hand hands each row to the loop once, to be applied again or to be verified. The order is that in which the rows were
// written, so that rows which wait for the reconciler keep their order. outrun: an operation was running on one of them. The
// error is that of ctx, or says that the loop has stopped.
func (m *marking[Obj]) hand(ctx context.Context, loop *reconciler.Loop[Obj], verify bool) (outrun bool, err error) {
	if len(m.rows) == 0 {
		return false, ctx.Err()
	}
	slices.SortFunc(m.rows, func(a, b dependent[Obj]) int { return cmp.Compare(a.revision, b.revision) })
	m.rows = slices.CompactFunc(m.rows, func(a, b dependent[Obj]) bool { return a.revision == b.revision })
	objs := make([]Obj, len(m.rows))
	for i := range m.rows {
		objs[i] = m.rows[i].object
	}
	if verify {
		return false, loop.Verify(ctx, objs...)
	}
	n, err := loop.Reapply(running.Follow(ctx), objs...)
	return n > 0, err
}
