// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// spoiler is a target that changes the key of its object when an update fails.
type spoiler struct{ *target }

func (s spoiler) Update(ctx context.Context, txn statedb.ReadTxn, rev statedb.Revision, o *object) error {
	err := s.target.Update(ctx, txn, rev, o)
	if err != nil {
		o.ID += 1000
	}
	return err
}

// spoilerBatches is a spoiler with batch operations.
type spoilerBatches struct {
	spoiler
	batchTarget
}

func (s spoilerBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	s.batchTarget.UpdateBatch(ctx, txn, batch)
	for i := range batch {
		if batch[i].Result != nil {
			batch[i].Object.ID += 1000
		}
	}
}

func (s spoilerBatches) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	s.batchTarget.DeleteBatch(ctx, txn, batch)
}
