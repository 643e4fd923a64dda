// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package running_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	name, note string
	status     reconciler.Status
}

func (r *row) TableHeader() []string { return []string{"Name"} }
func (r *row) TableRow() []string    { return []string{r.name} }

var byName = statedb.Index[*row, string]{
	Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.name)) },
}

// asking is a target whose Update asks for its row.
type asking struct {
	t     *testing.T
	table statedb.RWTable[*row]
	calls int
}

func (a *asking) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, clone *row) error {
	a.calls++
	stored, _, _ := a.table.Get(txn, byName.Query(clone.name))
	is, ok := running.Row[*row](ctx)
	assert.True(a.t, ok)
	assert.Same(a.t, stored, is, "the row, not the clone")
	_, ok = running.Row[row](ctx)
	assert.False(a.t, ok, "rows of another type")

	clone.note = "half way"
	assert.NoError(a.t, reconciler.Checkpoint(ctx, clone))
	is, ok = running.Row[*row](ctx)
	assert.True(a.t, ok)
	assert.NotSame(a.t, stored, is)
	assert.Equal(a.t, "half way", is.note, "what the checkpoint wrote")
	return nil
}

func (a *asking) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *row) error { return nil }

func (a *asking) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*row, statedb.Revision]) error {
	return nil
}

// inBatches is the same for batches.
type inBatches struct{ *asking }

func (b inBatches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*row]) {
	b.calls += len(batch)
	_, ok := running.Row[*row](ctx)
	assert.False(b.t, ok, "a batch has no single row")
}

func (b inBatches) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*row]) {}

func TestRowReturnsTheRowOfTheRunningOperation(t *testing.T) {
	for name, batches := range map[string]bool{"single": false, "batches": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := statedb.New()
				require.NoError(t, db.Start())
				defer func() { require.NoError(t, db.Stop()) }()
				table, err := statedb.NewTable(db, "rows", byName)
				require.NoError(t, err)
				a := &asking{t: t, table: table}
				cfg := reconciler.Config[*row]{
					DB: db, Table: table, Operations: a,
					Clone:     func(r *row) *row { c := *r; return &c },
					SetStatus: func(r *row, s reconciler.Status) *row { r.status = s; return r },
					GetStatus: func(r *row) reconciler.Status { return r.status },
				}
				if batches {
					cfg.BatchOperations = inBatches{a}
				}
				loop, err := reconciler.New(cfg)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- loop.Run(ctx) }()

				wtxn := db.WriteTxn(table)
				for _, name := range []string{"a", "b"} {
					_, _, err := table.Insert(wtxn, &row{name: name, status: reconciler.StatusPending()})
					require.NoError(t, err)
				}
				wtxn.Commit()
				synctest.Wait()
				cancel()
				require.NoError(t, <-ended)
				require.Equal(t, 2, a.calls)
			})
		})
	}
}

func TestRowIsMissingOutsideAnOperation(t *testing.T) {
	_, ok := running.Row[*row](t.Context())
	require.False(t, ok)
	// The functions are not called then.
	running.Comparer[*row](nil, nil, nil)(t.Context(), &row{})
}
