// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"math"
	"testing"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// A loop that has nothing to do sets no timer. Else a bubble in which all else waits would not
// come to a deadlock, which is reported, but to the end of time, where the timer is always due.
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
