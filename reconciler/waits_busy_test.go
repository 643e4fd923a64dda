// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// bothLedgers runs a test with the status in the rows and beside the table.
func bothLedgers(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for name, change := range map[string]configure{"in rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) { inBubble(t, test, change, opts...) })
	}
}

// requireNoneOver requires that no wait is over.
func (e *env) requireNoneOver(waits []<-chan waited) {
	e.Helper()
	synctest.Wait()
	for i, over := range waits {
		select {
		case w := <-over:
			e.Errorf("wait %d is over after %s: %v", i, w.took, w.err)
		default:
		}
	}
}

// WaitKey does not take a loop that gives no answer in time for one that does not know the object.
func TestWaitKeyFindsAFailingDeletionWhileTheLoopIsBusy(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("in use")
			}
			return nil
		})
		e.remove(1)
		e.pass(50 * time.Millisecond)
		e.target.takes(time.Second)
		// Which of these ends too early depends on when it asks the loop.
		var waits []<-chan waited
		for i := range 40 {
			waits = append(waits, during(func() (inspect.Unapplied, error) {
				return e.loop.WaitKey(e.Context(), "1", reconciler.Applied)
			}))
			e.put(i, 2, 3)
			e.pass(510 * time.Millisecond)
		}
		require.Contains(e, e.target.holds(), uint64(1))
		e.requireNoneOver(waits)
		e.target.deciding(nil)
		e.pass(2 * time.Minute)
	}, reconciler.WithoutPruning())
}

// WaitFor lists a deletion of which the loop does not tell in time whether it was carried out.
func TestWaitForListsAFailedDeletionWhileTheLoopIsBusy(t *testing.T) {
	bothLedgers(t, func(e *env) {
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
	}, reconciler.WithoutPruning())
}
