// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// waitsForTable returns when a goroutine that has function on its stack waits for the lock of the
// table.
func waitsForTable(function string) {
	stacks := make([]byte, 1<<20)
	for {
		all := string(stacks[:runtime.Stack(stacks, true)])
		for stack := range strings.SplitSeq(all, "\n\n") {
			if strings.Contains(stack, "Mutex.Lock") && strings.Contains(stack, "(*DB).WriteTxn") && strings.Contains(stack, function) {
				return
			}
		}
		runtime.Gosched()
	}
}

// A goroutine that holds the write transaction of the table can query the loop, although a checkpoint
// waits for the table.
func TestCheckpointWaitingForTheTableHoldsUpNoQuery(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		h.update = func(ctx context.Context, o *object) error {
			wtxn := e.db.WriteTxn(e.table)
			written := make(chan error)
			o.Note = "step"
			go func() { written <- reconciler.Checkpoint(ctx, o) }()
			waitsForTable(".checkpoint(")
			reconciler.Note(ctx, "noted")
			reconciler.NoteOn(ctx, o, "noted")
			assert.Equal(e, "Pending", e.loop.Explain(ctx, "1").Status)
			assert.NotEmpty(e, e.loop.Snapshot(ctx).Condition)
			wtxn.Abort()
			assert.NoError(e, <-written)
			return nil
		}
		e.put(1, 1)
		e.pass(time.Second)
		e.status(1, reconciler.StatusKindDone, "")
		require.Equal(e, "step", e.get(1).Note)
		require.Equal(e, "noted", e.loop.Events(inspect.EventQuery{Key: "1"})[0].Note)
	})
}

// A checkpoint that waits for the table until its operation is over writes nothing.
func TestCheckpointAfterItsOperationWritesNothing(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		var late error
		h.update = func(ctx context.Context, o *object) error {
			if h.updates.Load() > 1 {
				return nil
			}
			wtxn := e.db.WriteTxn(e.table)
			o = o.Clone()
			o.Note = "too late"
			go func() { late = reconciler.Checkpoint(ctx, o) }()
			waitsForTable(".checkpoint(")
			go func() {
				waitsForTable(".commit(")
				wtxn.Abort()
			}()
			return errPlain
		}
		e.put(1, 1)
		e.pass(time.Second)
		require.ErrorIs(e, late, reconciler.ErrNoOperation)
		e.status(1, reconciler.StatusKindDone, "")
		require.Empty(e, e.get(1).Note)
		require.EqualValues(e, 2, h.updates.Load())
	})
}
