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

// inCalls runs a test with both kinds of operations for many objects, each with one worker
// and with four.
func inCalls(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"batches", "rounds"} {
		eachConcurrency(t, kind, test, operate(kind), opts...)
	}
}

// comesBack says when what one call was made for is called again, by how often it had been
// called by then.
type comesBack struct{ batch, times int }

// requireTogether requires that those of the calls that were one call, for objects that had
// been called as often, are called again at one moment. It returns the moments for each.
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

// numCalls returns in how many calls the operations were.
func numCalls(calls []call) int {
	distinct := map[int]bool{}
	for _, c := range calls {
		distinct[c.batch] = true
	}
	return len(distinct)
}

// waiting are the outcomes with which an object comes back after a wait that has jitter.
func waiting() map[string]error {
	return map[string]error{
		"failed": errPlain, "requeued": reconciler.RequeueBackoff(),
		"blocked": reconciler.Blocked("door", make(chan struct{})),
	}
}

// What failed in one call comes back in one call: with jitter it takes as few calls as
// without. The same holds for those that back off without having failed, or are blocked.
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
						t.Logf("%d calls without jitter, %d with", numCalls(exact), numCalls(spread))
						require.LessOrEqual(t, numCalls(spread), numCalls(exact)+numCalls(exact)/2)
						requireTogether(t, spread)
					})
				}
			}
		})
	}
}

// Of calls that end together, each has a draw of its own: only what one call was made for
// comes back together.
func TestCallsThatFailTogetherComeBackApart(t *testing.T) {
	inCalls(t, func(e *env) {
		start := time.Now()
		e.target.before = func(_ context.Context, c call) {
			// The first calls are all under way at once.
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
		// Retries that are due within 5 ms of each other are run together.
		require.GreaterOrEqual(e, len(moments), 2, "first retries")
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.5 }), reconciler.WithRoundLimits(100, nil), reconciler.WithRetry(time.Second, time.Minute))
}

// Objects that have failed more often than others of their call wait longer, by the same
// fraction.
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

// The deletions and updates of a ProcessRound are one call, those of a DeleteBatch and an
// UpdateBatch are two.
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
