// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// Explain must not read fields that the loop writes without a lock.
func TestExplainDoesNotRaceWithStuckOperations(t *testing.T) {
	const n = 1000
	inBubble(t, func(e *env) {
		all := ids(1, n)
		stuck := e.target.stick(all...)
		e.put(1, all...)
		e.pass(stuckAfter - time.Millisecond)
		for i := range n {
			go func() {
				// The next pass marks the operations as stuck.
				time.Sleep(time.Millisecond)
				e.loop.Explain(context.Background(), fmt.Sprint(1+i%n))
			}()
		}
		e.pass(time.Second)
		for _, id := range all {
			stuck.free(id)
		}
		e.pass(time.Second)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = n, time.Second }),
		reconciler.WithBreaker(reconciler.Breaker{Failures: 1000}), reconciler.WithoutPruning())
}
