// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// pruneTimes makes the target record the times of its prunes.
func (x *target) pruneTimes() func() []time.Time {
	var mu sync.Mutex
	var at []time.Time
	x.deciding(func(c call) error {
		if c.op == "prune" {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
		}
		return nil
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

// 9: a prune runs between operations, whatever the number of workers. inBubble checks that no
// operation overlaps it.
func TestPruneWaitsForTheWorkers(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, n int) {
		prunes := e.target.pruneTimes()
		e.target.takes(10 * time.Millisecond)
		e.put(1, ids(1, 2000)...)
		for i := range 10 {
			e.pass(50 * time.Millisecond)
			e.loop.Prune()
			e.pass(150 * time.Millisecond)
			require.Len(e, prunes(), i+1, "the prune does not wait for all work")
		}
		e.pass(time.Minute)
		e.eachDone()
	}, reconciler.WithRoundLimits(10, nil))
}

// While a prune waits for one long operation, the other workers are held back only briefly. They
// continue when the loop gives the prune up for some time.
func TestPruneHoldsWorkBackOnlyBriefly(t *testing.T) {
	inBubble(t, func(e *env) {
		prunes := e.target.pruneTimes()
		e.target.taking(func(c call) time.Duration {
			if c.id == 1 {
				return 20 * time.Second
			}
			return 10 * time.Millisecond
		})
		start := time.Now()
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.put(1, ids(2, 100_000)...)
		e.pass(100 * time.Millisecond)
		e.loop.Prune()
		e.pass(15*time.Second - 101*time.Millisecond)
		require.Empty(e, prunes())

		// In 15 s three workers can run 4,500 operations of 10 ms.
		calls := e.target.take()
		require.Greater(e, len(calls), 4500*8/10, "the work gets most of the time")
		longest, last := time.Duration(0), start
		for _, c := range calls {
			longest = max(longest, c.at.Sub(last))
			last = c.at
		}
		require.LessOrEqual(e, longest, time.Second, "the longest time without a start")

		e.pass(20 * time.Second)
		require.Len(e, prunes(), 1, "the operation is over")
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
}

// A prune runs even if operations always take longer than the time for which work is first held
// back.
func TestPruneGetsThroughLongOperations(t *testing.T) {
	withWorkers(t, []int{2, 4}, func(e *env, n int) {
		prunes := e.target.pruneTimes()
		e.target.taking(func(c call) time.Duration { return time.Duration(700+c.id%600) * time.Millisecond })
		e.put(1, ids(1, 1000)...)
		e.pass(100 * time.Millisecond)
		e.loop.Prune()
		e.pass(30 * time.Second)
		require.Len(e, prunes(), 1)
		e.pass(time.Hour)
		e.eachDone()
	}, reconciler.WithRoundLimits(1, nil))
}

// Changes that come while work is held back are read as soon as the prune has ended or is given up
// for some time. They need no other event.
func TestChangesDuringAPruneAreNotLost(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, n int) {
		prunes := e.target.pruneTimes()
		e.target.taking(func(c call) time.Duration {
			if c.id == 1 {
				return time.Minute
			}
			return 80 * time.Millisecond
		})
		e.put(1, 2)
		e.pass(10 * time.Millisecond)
		e.loop.Prune()
		e.pass(20 * time.Millisecond)
		e.put(1, 3)
		e.pass(200 * time.Millisecond)
		require.Len(e, prunes(), 1)
		e.eachDone()

		if n == 1 {
			return
		}
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.loop.Prune()
		e.pass(50 * time.Millisecond)
		e.put(1, 4)
		e.pass(250 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindDone, e.kind(4), "the prune was given up for some time")
		require.Len(e, prunes(), 1)
		e.pass(2 * time.Minute)
		require.Len(e, prunes(), 2)
		e.eachDone()
	})
}

// A prune that is cancelled holds nothing back, whether it still waits or was given up for some
// time.
func TestCancelledPruneHoldsNothingBack(t *testing.T) {
	for _, waited := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} {
		inBubble(t, func(e *env) {
			prunes := e.target.pruneTimes()
			e.target.taking(func(c call) time.Duration {
				if c.id == 1 {
					return time.Minute
				}
				return time.Millisecond
			})
			e.pass(9990 * time.Millisecond)
			e.put(1, 1)
			e.pass(10*time.Millisecond + waited)
			e.put(1, 2)
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.PruneInterval = 0 }))
			e.pass(10 * time.Millisecond)
			require.Equal(e, reconciler.StatusKindDone, e.kind(2))
			e.pass(time.Hour)
			require.Empty(e, prunes())
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }), reconciler.WithPruning(10*time.Second))
	}
}
