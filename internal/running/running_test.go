// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package running_test

import (
	"context"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	name, note string
	status     reconciler.Status
}

func (r *row) TableHeader() []string { return []string{"Name"} }
func (r *row) TableRow() []string    { return []string{r.name} }

func name(r *row) string { return r.name }

func newRows(db *statedb.DB) (statedb.RWTable[*row], error) {
	return statedb.NewTable(db, "rows", statedb.Index[*row, string]{
		Name: "name", Unique: true, FromKey: index.String,
		FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.name)) },
	})
}

// batches calls f in each update.
type batches struct{ f func(ctx context.Context) }

func (b batches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, _ []reconciler.BatchEntry[*row]) {
	b.f(ctx)
}
func (b batches) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*row]) {}

func config(target *reconcilertest.Target[*row]) reconciler.Config[*row] {
	return reconciler.Config[*row]{
		Operations: target,
		Clone:      func(r *row) *row { c := *r; return &c },
		SetStatus:  func(r *row, s reconciler.Status) *row { r.status = s; return r },
		GetStatus:  func(r *row) reconciler.Status { return r.status },
	}
}

func TestRowReturnsTheRowOfTheRunningOperation(t *testing.T) {
	reconcilertest.Run(t, newRows, func(e *reconcilertest.Env[*row]) {
		e.Insert(&row{name: "a", status: reconciler.StatusPending()}, &row{name: "b", status: reconciler.StatusPending()})
		target := reconcilertest.NewTarget(name, nil)
		target.Decide(func(ctx context.Context, c reconcilertest.Call[*row]) error {
			stored, _ := e.Get(c.Object)
			is, ok := running.Row[*row](ctx)
			assert.True(t, ok)
			assert.Same(t, stored, is, "the row, not the clone")
			_, ok = running.Row[row](ctx)
			assert.False(t, ok, "rows of another type")

			c.Object.note = "half way"
			assert.NoError(t, reconciler.Checkpoint(ctx, c.Object))
			is, ok = running.Row[*row](ctx)
			assert.True(t, ok)
			assert.NotSame(t, stored, is)
			assert.Equal(t, "half way", is.note, "what the checkpoint wrote")
			return nil
		})
		e.Start(config(target))
		require.Len(t, target.Take(), 2)
	})
}

func TestRowIsMissingOutsideAnOperationOnOneObject(t *testing.T) {
	calls := 0
	requireNone := func(ctx context.Context) {
		calls++
		_, ok := running.Row[*row](ctx)
		assert.False(t, ok)
	}
	reconcilertest.Run(t, newRows, func(e *reconcilertest.Env[*row]) {
		e.Insert(&row{name: "a", status: reconciler.StatusPending()})
		cfg := config(reconcilertest.NewTarget(name, nil))
		cfg.BatchOperations = batches{requireNone}
		e.Start(cfg)
	})
	requireNone(t.Context())
	require.Equal(t, 2, calls)
	// The functions are not called then.
	running.Comparer[*row](nil, nil, nil)(t.Context(), &row{})
}
