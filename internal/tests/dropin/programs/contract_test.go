// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scribbler changes every object that an operation gets. The objects have to be clones.
type scribbler struct{ *target }

func (s scribbler) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj *service) error {
	err := s.target.Update(ctx, txn, revision, obj)
	obj.Handle = "scribbled"
	return err
}

func (s scribbler) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	s.target.UpdateBatch(ctx, txn, batch)
	for _, entry := range batch {
		entry.Object.Handle = "scribbled"
	}
}

func (s scribbler) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	s.target.DeleteBatch(ctx, txn, batch)
	for _, entry := range batch {
		entry.Object.Handle = "scribbled"
	}
}

// All readers of a table share its rows, so an operation must not change them.
func TestOperationsAreHandedClones(t *testing.T) {
	for _, batched := range []bool{false, true} {
		t.Run(fmt.Sprintf("batched=%t", batched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, ops := newApp(t), scribbler{newTarget()}
				var batchOps reconciler.BatchOperations[*service]
				if batched {
					batchOps = ops
				}
				_, err := reconciler.Register(a.params, a.services,
					(*service).Clone, (*service).SetStatus, (*service).GetStatus, ops, batchOps, withQuickRetry)
				require.NoError(t, err)
				a.start()

				ops.fail("no room", 1)
				pending := wanted(1, "a")
				a.put(pending)
				a.awaitKind(reconciler.StatusKindError, 1)
				failed := a.get(1)
				ops.heal()
				a.awaitKind(reconciler.StatusKindDone, 1)
				assert.Empty(t, pending.Handle, "the inserted row must not change")
				assert.Equal(t, reconciler.StatusKindPending, pending.Status.Kind)
				assert.Equal(t, "scribbled", failed.Handle, "changes by a failed update are written as well")
				assert.Equal(t, reconciler.StatusKindError, failed.Status.Kind)

				last := wanted(1, "b")
				last.Status = reconciler.StatusDone()
				a.put(last)
				a.remove(1)
				eventually(t, func() bool { return ops.has() == "" }, "the deletion")
				assert.Empty(t, last.Handle, "the deleted row must not change")
			})
		})
	}
}
