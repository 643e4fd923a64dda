// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// inCalls runs a test with batch and with round operations, each with one worker and with four.
func inCalls(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"batches", "rounds"} {
		eachConcurrency(t, kind, test, operate(kind), opts...)
	}
}

// comesBack identifies objects that were in one call and had been called the same number of times.
type comesBack struct{ batch, times int }

// requireTogether requires that the objects of each comesBack are called again at one moment. It
// returns these moments.
func requireTogether(t *testing.T, calls []call) map[comesBack]time.Time {
	t.Helper()
	back := map[comesBack]time.Time{}
	last, times := map[uint64]comesBack{}, map[uint64]int{}
	for _, c := range calls {
		if from, ok := last[c.id]; ok {
			if at, known := back[from]; known {
				require.Equal(t, at, c.at, "object %d and others of call %d", c.id, from.batch)
			}
			back[from] = c.at
		}
		times[c.id]++
		last[c.id] = comesBack{c.batch, times[c.id]}
	}
	return back
}

// numCalls returns the number of calls that the operations were in.
func numCalls(calls []call) int {
	distinct := map[int]bool{}
	for _, c := range calls {
		distinct[c.batch] = true
	}
	return len(distinct)
}

// waiting returns the outcomes after which an object comes back after a wait with jitter.
func waiting() map[string]error {
	return map[string]error{
		"failed": errPlain, "requeued": reconciler.RequeueBackoff(),
		"blocked": reconciler.Blocked("door", make(chan struct{})),
	}
}

// Objects that failed in one call come back in one call: jitter does not add calls. The same holds
// for objects that back off without a failure, and for blocked objects.
func TestObjectsOfOneCallComeBackInOneCall(t *testing.T) {
	for name := range waiting() {
		t.Run(name, func(t *testing.T) {
			run := func(t *testing.T, kind string, workers int, jitter float64) (calls []call) {
				inBubble(t, func(e *env) {
					out := waiting()[name]
					e.target.deciding(func(call) error { return out })
					e.put(1, ids(1, 1000)...)
					e.pass(time.Minute)
					calls = e.target.take()
				}, operate(kind), reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter, s.Concurrency = jitter, workers }), reconciler.WithoutPruning())
				return calls
			}
			for _, kind := range []string{"batches", "rounds"} {
				for _, workers := range []int{1, 4} {
					t.Run(fmt.Sprintf("%s, %d worker(s)", kind, workers), func(t *testing.T) {
						exact, spread := run(t, kind, workers, 0), run(t, kind, workers, 0.1)
						require.GreaterOrEqual(t, len(spread), 1000)
						t.Logf("%d calls without jitter, %d with jitter", numCalls(exact), numCalls(spread))
						require.LessOrEqual(t, numCalls(spread), numCalls(exact)+numCalls(exact)/2)
						requireTogether(t, spread)
					})
				}
			}
		})
	}
}

// Calls that end at the same moment draw their jitter separately: only the objects of one call come
// back together.
func TestCallsThatFailTogetherComeBackApart(t *testing.T) {
	inCalls(t, func(e *env) {
		start := time.Now()
		e.target.before = func(_ context.Context, c call) {
			// The first calls all run at the same time.
			if c.id%100 == 1 && time.Now().Equal(start) {
				time.Sleep(10 * time.Millisecond)
			}
		}
		e.target.failing("no")
		e.put(1, ids(1, 400)...)
		e.pass(3 * time.Second)
		back := requireTogether(e.T, e.target.take())
		moments := map[time.Time]bool{}
		for from, at := range back {
			if from.times == 1 {
				moments[at] = true
			}
		}
		// Retries that come due within 5 ms of each other run together.
		require.GreaterOrEqual(e, len(moments), 2, "first retries")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.5 }), reconciler.WithRoundLimits(100, nil), reconciler.WithRetry(time.Second, time.Minute))
}

// Objects that have failed more often than others of their call wait longer. Jitter shortens all
// these waits by the same fraction.
func TestWaitsOfOneCallAreShortenedByOneFraction(t *testing.T) {
	inCalls(t, func(e *env) {
		e.target.failing("no")
		e.put(1, ids(1, 10)...)
		e.pass(250 * time.Millisecond)
		for _, id := range ids(1, 10) {
			require.EqualValues(e, 2, e.loop.Explain(e.Context(), fmt.Sprint(id)).Attempts, "object %d", id)
		}
		e.target.take()
		start := time.Now()
		e.put(2, ids(1, 20)...)
		synctest.Wait()
		calls := e.target.take()
		require.Len(e, calls, 20)
		for _, c := range calls {
			require.Equal(e, calls[0].batch, c.batch, "all in one call")
		}
		e.pass(2 * time.Second)
		first := map[uint64]time.Duration{}
		for _, c := range e.target.take() {
			if _, known := first[c.id]; !known {
				first[c.id] = c.at.Sub(start)
			}
		}
		require.Len(e, first, 20)
		for _, id := range ids(1, 10) {
			require.Equal(e, first[1], first[id], "failed three times")
			require.Equal(e, first[11], first[id+10], "failed once")
		}
		require.InDelta(e, 4*first[11], first[1], 8, "nanoseconds")
		require.Less(e, first[1], 400*time.Millisecond)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.1 }))
}

// The deletions and updates of a ProcessRound are one call; a DeleteBatch and an UpdateBatch are
// two calls.
func TestDeletionsAndUpdatesOfOneCallComeBackTogether(t *testing.T) {
	inCalls(t, func(e *env) {
		e.put(1, ids(1, 10)...)
		e.pass(time.Second)
		e.target.take()
		e.target.failing("no")
		e.remove(ids(1, 5)...)
		e.put(2, ids(6, 10)...)
		e.pass(time.Minute)
		requireTogether(e.T, e.target.take())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.1 }))
}
