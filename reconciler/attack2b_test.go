// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// WaitFor: "It returns the objects that are not in the target, or if deleted, still are". The loop goes on with
// operations that take longer than it has for answers, so it does not tell that the deletion has failed; WaitFor
// returns without an error, and lists nothing.
func TestWaitForListsAFailedDeletionWhileTheLoopIsBusy(t *testing.T) {
	for name, change := range map[string]configure{"in rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, 1)
				e.pass(time.Second)
				e.target.deciding(func(c call) error {
					if c.op == "delete" {
						return errors.New("in use")
					}
					return nil
				})
				e.target.takes(300 * time.Millisecond)
				e.put(1, ids(10, 200)...)
				e.remove(1)
				time.Sleep(10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
				defer cancel()
				rest, err := e.loop.WaitFor(ctx, reconciler.Attempted, &object{ID: 1})
				require.NoError(e, err)
				require.Contains(e, e.target.holds(), uint64(1))
				require.Len(e, rest.Keys, 1, "the deletion has failed, and the target has the object")
			}, change, reconciler.WithoutPruning())
		})
	}
}

// Reapply: "If an operation on an object is running, its outcome does not count, and the object is applied once
// more. Reapply returns how many are in that case."
func TestReapplyCountsRunningOperations(t *testing.T) {
	for name, change := range map[string]configure{"in rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(time.Second)
				e.put(1, 1)
				e.pass(100 * time.Millisecond)
				running, err := e.loop.Reapply(e.Context(), &object{ID: 1})
				require.NoError(e, err)
				e.pass(10 * time.Second)
				require.Len(e, e.target.take(), 2, "it is applied once more")
				require.Equal(e, 1, running)
			}, change, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
		})
	}
}

// Settings.Timeout: a stuck call "keeps its worker, and holds up its own objects, their groups, and prunes". If
// Concurrency is lowered to 1 meanwhile, it holds up no others either: the loop itself can run them.
func TestStuckCallHoldsUpNoOtherObjectWhenWorkersAreTurnedOff(t *testing.T) {
	inBubble(t, func(e *env) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(10 * time.Second)
		e.set(func(s *reconciler.Settings) { s.Concurrency = 1 })
		e.put(1, 2)
		e.pass(10 * time.Minute)
		kind := e.kind(2)
		stuck.free(1)
		e.pass(time.Minute)
		require.Equal(e, reconciler.StatusKindDone, kind)
	}, nil, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 4, time.Second }))
}
