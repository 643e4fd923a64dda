// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"math"
	"testing"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// An idle loop sets no timer. If it had one, a bubble in which all other goroutines wait would not
// report a deadlock: virtual time would advance to its end, where the timer is always due.
func TestIdleLoopIsIdleAtTheEndOfTime(t *testing.T) {
	for _, workers := range []int{1, 4} {
		hung := time.AfterFunc(20*time.Second, func() { panic("the loop is not idle") })
		inBubble(t, func(e *env) {
			e.put(1, 1)
			e.pass(math.MaxInt64)
			e.put(2, 1, 2)
			e.pass(0)
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
		hung.Stop()
	}
}
