// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// patientBatches is a target whose DeleteBatch runs until the reconciler stops.
type patientBatches struct{ batchTarget }

func (p patientBatches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	number := p.next(ctx)
	<-ctx.Done()
	for i, e := range batch {
		batch[i].Result = p.do(ctx, call{op: "delete", id: e.Object.ID, revision: e.Revision, batch: number})
	}
}

// A stop between DeleteBatch and UpdateBatch leaves the updates out. No wait reports them as
// attempted or applied, whether it began before or after the stop.
func TestStopBetweenBatchesAppliesNothingThatWasNotRun(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, retried := range []bool{false, true} {
			t.Run(fmt.Sprintf("workers %d, with a retry %t", workers, retried), func(t *testing.T) {
				inBubble(t, func(e *env) { stopBetweenBatches(e, retried) },
					func(e *env, cfg *reconciler.Config[*object]) {
						cfg.BatchOperations = patientBatches{batchTarget{e.target}}
					},
					reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
			})
		}
	}
}

func stopBetweenBatches(e *env, retried bool) {
	e.put(1, 1)
	if retried {
		e.target.deciding(func(c call) error {
			if c.id == 2 {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, 2)
	}
	synctest.Wait()
	if retried {
		// The retry comes with the batch.
		e.loop.Pause()
		e.pass(time.Second)
	}
	until := e.write(func(wtxn statedb.WriteTxn) {
		_, _, _ = e.table.Delete(wtxn, &object{ID: 1})
		_, _, _ = e.table.Insert(wtxn, &object{ID: 3, Status: reconciler.StatusPending()})
	})
	e.loop.Resume()
	synctest.Wait()
	e.target.take()
	waits := []<-chan waited{
		e.wait(until, reconciler.Applied), e.wait(until, reconciler.Attempted),
		e.waitFor(reconciler.Applied, 3), e.waitFor(reconciler.Attempted, 3),
	}
	gone := e.waitFor(reconciler.Applied, 1)
	synctest.Wait()
	e.stop()
	require.Equal(e, []string{"delete(1)"}, e.target.calls(), "the operations that ran")
	require.Equal(e, reconciler.StatusKindPending, e.kind(3))
	for i, over := range waits {
		require.ErrorIs(e, (<-over).err, inspect.ErrStopped, "wait %d", i)
	}
	require.NoError(e, (<-gone).err, "the deletion was carried out")
	for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
		require.ErrorIs(e, (<-e.wait(until, m)).err, inspect.ErrStopped, "%s, after the stop", m)
	}
	ctx, cancel := context.WithTimeout(e.Context(), time.Second)
	defer cancel()
	revision, _, err := e.loop.WaitUntilReconciled(ctx, until)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.Less(e, revision, until)
}
