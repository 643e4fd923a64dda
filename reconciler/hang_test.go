// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// The loop goes to sleep before or after the worker has begun; twenty runs make both likely. Nothing
// else wakes the loop meanwhile.
func TestIdleLoopReportsAHangingOperation(t *testing.T) {
	for range 20 {
		var hung chan struct{} // made in the bubble
		inBubble(t, func(e *env) {
			e.put(1, 1)
			e.pass(2*time.Second - time.Millisecond)
			level, _, _ := e.health.Now()
			require.Equal(e, cell.StatusOK, level)

			e.pass(time.Millisecond)
			level, _, err := e.health.Now()
			require.Equal(e, cell.StatusDegraded, level)
			require.ErrorContains(e, err, "update of ")

			close(hung)
			e.pass(time.Second)
			require.Equal(e, reconciler.StatusKindDone, e.kind(1))
		}, func(e *env, _ *reconciler.Config[*object]) {
			hung = make(chan struct{})
			e.target.before = func(_ context.Context, c call) { <-hung }
		}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 2, time.Second }))
	}
}
