// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

type (
	keySet   = index.KeySet
	writeTxn = statedb.WriteTxn
)

func newKeySet(id uint64) keySet { return index.NewKeySet(index.Uint64(id)) }

// countingBatches counts the objects of its updates.
type countingBatches struct{ updated *int }

func (c countingBatches) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[valueObject]) {
	*c.updated += len(batch)
}

func (c countingBatches) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[valueObject]) {
}
