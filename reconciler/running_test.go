// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Package running is for adapters: an operation on one object can ask for the row, a batch has no single row.
func TestRowReturnsTheRowOfTheRunningOperation(t *testing.T) {
	for _, batched := range []bool{false, true} {
		inBubble(t, func(e *env) {
			calls := 0
			e.target.before = func(ctx context.Context, c call) {
				calls++
				is, ok := running.Row[*object](ctx)
				if assert.Equal(e, !batched, ok, "a single row"); batched {
					return
				}
				stored, _, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(c.id))
				assert.Same(e, stored, is, "the row, not the clone")
				_, ok = running.Row[object](ctx)
				assert.False(e, ok, "rows of another type")
				half := *stored
				half.Value = -1
				assert.NoError(e, reconciler.Checkpoint(ctx, &half))
				is, ok = running.Row[*object](ctx)
				assert.True(e, ok)
				assert.Equal(e, -1, is.Value, "what the checkpoint wrote")
			}
			e.put(1, 1, 2)
			synctest.Wait()
			require.Equal(e, 2, calls)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			if batched {
				cfg.BatchOperations = batchTarget{e.target}
			}
		}, reconciler.WithoutPruning())
	}
	_, ok := running.Row[*object](t.Context())
	require.False(t, ok, "outside an operation")
	// The functions are not called then.
	running.Comparer[*object](nil, nil, nil)(t.Context(), &object{})
}
