// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// withWorkers runs a test with each kind of operations and each number of workers.
func withWorkers(t *testing.T, workers []int, test func(e *env, n int), options ...reconciler.Option) {
	withWorkersAnd(t, workers, nil, test, options...)
}

// withWorkersAnd is withWorkers with a change of the configuration; nil changes nothing.
func withWorkersAnd(t *testing.T, workers []int, change configure, test func(e *env, n int), options ...reconciler.Option) {
	for _, kind := range operationKinds {
		for _, n := range workers {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, func(e *env) { test(e, n) }, both(kind.change, change),
					append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}, options...)...)
			})
		}
	}
}

// operationKinds are the kinds of operations that a target can have.
var operationKinds = []struct {
	name   string
	change func(*env, *reconciler.Config[*object])
}{
	{"single", nil},
	{"batches", func(e *env, cfg *reconciler.Config[*object]) { cfg.BatchOperations = batchTarget{e.target} }},
	{"rounds", func(e *env, cfg *reconciler.Config[*object]) { cfg.RoundOperations = roundTarget{e.target} }},
}

// taking makes every call for an object take the time that f returns; prunes take no time.
func (x *target) taking(f func(c call) time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if c.op != "prune" {
			time.Sleep(f(c))
		}
	}
}

// takes makes every call for an object take the time d.
func (x *target) takes(d time.Duration) { x.taking(func(call) time.Duration { return d }) }

func TestConcurrencyIsReachedAndNotExceeded(t *testing.T) {
	withWorkers(t, []int{1, 4}, func(e *env, n int) {
		e.target.takes(10 * time.Millisecond)
		e.put(1, ids(1, 400)...)
		e.pass(4 * time.Second / time.Duration(n))
		e.remove(ids(1, 10)...)
		e.pass(time.Second)
		e.eachDone()
		require.Equal(e, n, e.target.most, "operations at a time")
		require.Len(e, e.target.take(), 410, "each once")
	}, reconciler.WithRoundLimits(10, nil))
}

func TestSlowObjectHoldsUpOnlyItself(t *testing.T) {
	withWorkers(t, []int{2}, func(e *env, _ int) {
		e.target.taking(func(c call) time.Duration {
			if c.id == 1 {
				return 2 * time.Second
			}
			return time.Millisecond
		})
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.put(1, ids(2, 1000)...)
		for value := range 10 {
			e.pass(110 * time.Millisecond)
			e.put(value, 1)
		}
		require.Zero(e, e.notDone(ids(2, 1000)...))
		require.Equal(e, reconciler.StatusKindPending, e.kind(1))
		e.pass(3 * time.Second)
		e.eachDone()
		require.Len(e, e.target.take(), 1001, "the slow object runs once more")
	}, reconciler.WithRoundLimits(10, nil))
}

// Outcomes of operations that end at the same time are written in one transaction.
func TestOutcomesAreCommittedInGroups(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.takes(time.Millisecond)
		e.put(1, ids(1, 640)...)
		e.pass(200 * time.Millisecond)
		e.eachDone()
		require.LessOrEqual(e, e.loop.Figures().CommitSizes.Count, uint64(40), "for 10 times 64 operations")
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 64 }))
}

// 10: a stop commits what has finished and cancels the context of what runs. Queued operations
// never start.
func TestStopCommitsWhatWorkersFinished(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		inBubble(t, func(e *env) {
			e.hook(func(ctx context.Context, c call) { <-ctx.Done(); time.Sleep(10 * time.Millisecond) })
			e.target.deciding(func(c call) error {
				if c.id%2 == 0 {
					return context.Canceled
				}
				return nil
			})
			e.put(1, ids(1, 20)...)
			e.pass(time.Second)
			e.stop()
			calls := e.target.take()
			require.Len(e, calls, n, "operations that ran")
			done := 0
			for _, c := range calls {
				if c.err == nil {
					require.Equal(e, reconciler.StatusKindDone, e.kind(c.id))
					done++
				}
			}
			require.Equal(e, 20-done, e.notDone(ids(1, 20)...))
			journal := e.loop.Rounds()
			require.Equal(e, done, journal[len(journal)-1].Written, "in one transaction")
			e.pass(time.Minute)
			require.Empty(e, e.target.take(), "nothing starts after the stop")
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n }))
	}
}

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
	withWorkers(t, []int{1, 4}, func(e *env, n int) {
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
