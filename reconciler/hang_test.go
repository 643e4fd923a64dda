// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// The loop goes to sleep before or after the worker has begun; twenty runs make both likely. Nothing
// else wakes the loop meanwhile.
func TestIdleLoopLeavesAHangingOperationBehind(t *testing.T) {
	for range 20 {
		var hung chan struct{} // made in the bubble
		inBubble(t, func(e *env) {
			e.put(1, 1, 2)
			e.pass(2*time.Second - time.Millisecond)
			require.Equal(e, reconciler.StatusKindPending, e.kind(2))

			e.pass(time.Millisecond)
			require.Equal(e, reconciler.StatusKindDone, e.kind(2))
			require.Equal(e, reconciler.StatusKindPending, e.kind(1))

			close(hung)
			e.pass(time.Second)
			require.Equal(e, reconciler.StatusKindDone, e.kind(1))
		}, func(e *env, _ *reconciler.Config[*object]) {
			hung = make(chan struct{})
			e.target.before = func(_ context.Context, c call) {
				if c.id == 1 {
					<-hung
				}
			}
		}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout, s.MaxStuck = time.Second, 1 }))
	}
}
