// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// stuckAfter is the time after which an operation with a timeout of a second is left behind.
const stuckAfter = 2 * time.Second

// stuckable holds the operations of a target that ignore their context until they are freed. Other
// operations take no time.
type stuckable struct {
	mu    sync.Mutex
	gates map[uint64]chan struct{}
}

// stick makes operations on the objects get stuck. When they are freed, the target decides their
// outcome as usual.
func (x *target) stick(ids ...uint64) *stuckable {
	s := &stuckable{gates: map[uint64]chan struct{}{}}
	for _, id := range ids {
		s.gates[id] = make(chan struct{})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stuckAfter = stuckAfter
	x.before = func(_ context.Context, c call) {
		s.mu.Lock()
		gate := s.gates[c.id]
		s.mu.Unlock()
		if gate != nil && c.op != "prune" {
			<-gate
		}
	}
	return s
}

// free lets the current and the later operations on an object return.
func (s *stuckable) free(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gates[id])
	delete(s.gates, id)
}

// withStuck runs a test with single operations and with batches of one, with n workers and MaxStuck
// set to n. Options may change that.
func withStuck(t *testing.T, workers []int, test func(e *env, n int), options ...reconciler.Option) {
	withStuckAnd(t, workers, nil, test, options...)
}

// withStuckAnd is withStuck with a change of the configuration; nil changes nothing.
func withStuckAnd(t *testing.T, workers []int, change configure, test func(e *env, n int), options ...reconciler.Option) {
	options = append([]reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }), reconciler.WithRoundLimits(1, nil), reconciler.WithoutPruning(),
	}, options...)
	for _, kind := range operationKinds {
		for _, n := range workers {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, func(e *env) { test(e, n) }, both(kind.change, change),
					append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxStuck = n, n })}, options...)...)
			})
		}
	}
}

// An operation that ignores its deadline is left behind. Only its own object waits, and health
// names it until it returns.
func TestStuckOperationIsLeftBehind(t *testing.T) {
	withStuck(t, []int{1, 2}, func(e *env, n int) {
		stuck := e.target.stick(ids(1, uint64(n))...)
		e.put(1, ids(1, uint64(n)+3)...)
		e.pass(stuckAfter - time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.kind(uint64(n)+1))
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)

		e.pass(2 * time.Millisecond)
		for id := uint64(n) + 1; id <= uint64(n)+3; id++ {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
		}
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, fmt.Sprintf("%d operation(s) stuck", n), message)
		require.ErrorContains(e, err, "update of 0x0000000000000001 ignores its deadline, running since ")

		// The object does not run a second time, whatever changes.
		e.put(2, ids(1, uint64(n)+3)...)
		e.pass(time.Hour)
		require.Equal(e, reconciler.StatusKindPending, e.kind(1))
		require.Equal(e, reconciler.StatusKindDone, e.kind(uint64(n)+1))

		for id := range uint64(n) {
			stuck.free(id + 1)
		}
		e.pass(time.Second)
		e.eachDone()
		level, message, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level, message)
	})
}

// The outcome of a stuck operation counts when it returns: it is written if the object has not
// changed, and dropped otherwise.
func TestOutcomeOfAStuckOperationIsCommitted(t *testing.T) {
	withStuck(t, []int{1, 2}, func(e *env, _ int) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Hour)
		stuck.free(1)
		synctest.Wait()
		e.eachDone()
		require.Equal(e, []string{"update(1)"}, e.target.calls(), "late, but done")

		stuck = e.target.stick(2)
		e.target.failing("no")
		e.put(1, 2)
		e.pass(time.Minute)
		stuck.free(2)
		synctest.Wait()
		require.Contains(e, e.get(2).Status.GetError(), " timed out after 1s: no")
		e.target.failing("")
		e.pass(time.Minute)
		e.eachDone()
		e.target.take()

		stuck = e.target.stick(3)
		e.put(1, 3)
		e.pass(time.Minute)
		e.put(2, 3)
		e.pass(time.Minute)
		stuck.free(3)
		synctest.Wait()
		require.Equal(e, []string{"update(3)", "update(3)"}, e.target.calls(), "the new version as well")
		e.eachDone()

		stuck = e.target.stick(4)
		e.put(1, 4)
		e.pass(time.Minute)
		e.remove(4)
		e.pass(time.Minute)
		stuck.free(4)
		synctest.Wait()
		require.Equal(e, []string{"update(4)", "delete(4)"}, e.target.calls())
		e.eachDone()
	})
}

// At most MaxStuck operations are left behind. The loop waits for further stuck operations.
func TestAtMostMaxStuckOperationsAreLeftBehind(t *testing.T) {
	for _, n := range []int{1, 2} {
		inBubble(t, func(e *env) {
			stuck := e.target.stick(ids(1, 10)...)
			for id := range uint64(10) {
				e.put(1, id+1)
				e.pass(time.Minute)
			}
			e.target.mu.Lock()
			require.Len(e, e.target.running, n+1, "%d workers, and one left behind", n)
			e.target.mu.Unlock()
			_, message, _ := e.health.Now()
			require.Equal(e, fmt.Sprintf("%d operation(s) stuck", n+1), message, "includes those that are not left behind")
			require.Equal(e, reconciler.StatusKindPending, e.kind(10))

			// An operation that returns makes room to leave another one behind.
			for id := range uint64(10) {
				stuck.free(id + 1)
				e.pass(10 * time.Second)
				require.Equal(e, reconciler.StatusKindDone, e.kind(id+1))
			}
			e.eachDone()
			require.Equal(e, n+1, e.target.most)
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxStuck, s.Timeout = n, 1, time.Second }), reconciler.WithoutPruning())
	}
}

// When stuck operations return after their workers were replaced, no more than the configured
// number of workers stay.
func TestReturnedWorkersDoNotExceedTheConcurrency(t *testing.T) {
	inBubble(t, func(e *env) {
		stuck := e.target.stick(1, 2)
		e.put(1, 1, 2)
		e.pass(time.Minute)
		stuck.free(1)
		stuck.free(2)
		synctest.Wait()
		e.target.mu.Lock()
		e.target.most = 0
		e.target.mu.Unlock()
		e.target.takes(10 * time.Millisecond)
		e.put(1, ids(1, 100)...)
		e.pass(time.Minute)
		e.eachDone()
		require.Equal(e, 2, e.target.most)
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 2, time.Second }))
}

// By default a single worker is not replaced, and with several workers all may be.
func TestDefaultOfMaxStuckDependsOnTheWorkers(t *testing.T) {
	for n, want := range map[int]reconciler.StatusKind{
		1: reconciler.StatusKindPending, 4: reconciler.StatusKindDone,
	} {
		inBubble(t, func(e *env) {
			stuck := e.target.stick(ids(1, uint64(n))...)
			e.put(1, ids(1, uint64(n)+1)...)
			e.pass(time.Minute)
			require.Equal(e, want, e.kind(uint64(n)+1))
			for id := range uint64(n) {
				stuck.free(id + 1)
			}
			e.pass(time.Minute)
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = n, time.Second }))
	}
}

// An operation that observes its context is not stuck, even if it is a little late.
func TestOperationsThatObserveTheirContextAreNotStuck(t *testing.T) {
	withStuck(t, []int{1, 2}, func(e *env, _ int) {
		e.target.mu.Lock()
		e.target.before = func(ctx context.Context, c call) {
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond)
		}
		e.target.mu.Unlock()
		e.target.failing("gave up")
		e.put(1, ids(1, 5)...)
		e.pass(time.Minute)
		for _, report := range e.health.History() {
			require.NotContains(e, report, "stuck")
		}
		require.Contains(e, e.get(1).Status.GetError(), "timed out after 1s: gave up")
		e.target.deciding(nil)
		e.target.takes(0)
		e.pass(5 * time.Minute)
		e.eachDone()
	})
}

// A prune does not wait for operations that were left behind, which may never return. It waits for
// all others.
func TestPruneDoesNotWaitForStuckOperations(t *testing.T) {
	withStuck(t, []int{1, 2}, func(e *env, _ int) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.loop.Prune()
		e.pass(time.Second)
		require.Empty(e, e.target.take(), "the operation is not left behind yet")
		e.pass(2 * time.Second)
		require.Equal(e, []string{"prune(1)"}, e.target.calls())
		e.put(1, 2)
		e.loop.Prune()
		e.pass(time.Second)
		require.ElementsMatch(e, []string{"update(2)", "prune(2)"}, e.target.calls())
		stuck.free(1)
		e.pass(time.Second)
		e.eachDone()
	})
}

// A stuck operation keeps its group in flight, since it may still change objects of the group.
func TestStuckOperationKeepsItsGroup(t *testing.T) {
	withStuckAnd(t, []int{1, 2}, serially(byNote), func(e *env, _ int) {
		stuck := e.target.stick(1)
		e.putIn("a", 1, 1)
		e.pass(time.Millisecond)
		e.putIn("a", 1, 2)
		e.putIn("b", 1, 3)
		e.pass(time.Hour)
		require.Equal(e, reconciler.StatusKindPending, e.kind(2))
		require.Equal(e, reconciler.StatusKindDone, e.kind(3))
		stuck.free(1)
		e.pass(time.Second)
		e.eachDone()
	})
}

// 10: the stop waits for stuck operations, since no goroutine outlives it, and writes their
// outcomes.
func TestStopWaitsForStuckOperations(t *testing.T) {
	withStuck(t, []int{1, 2}, func(e *env, _ int) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Minute)
		e.put(1, 2)
		e.pass(time.Second)
		go func() {
			time.Sleep(time.Hour)
			stuck.free(1)
		}()
		stopped := time.Now()
		e.stop()
		require.Equal(e, time.Hour, time.Since(stopped))
		e.eachDone()
		require.Equal(e, []string{"update(2)", "update(1)"}, e.target.calls())
	})
}

// MaxStuck can be changed like other settings.
func TestMaxStuckIsChanged(t *testing.T) {
	inBubble(t, func(e *env) {
		stuck := e.target.stick(1, 2)
		e.put(1, 1)
		e.pass(time.Minute)
		e.put(1, 2)
		e.pass(time.Minute)
		e.put(1, 3)
		e.pass(time.Minute)
		require.Equal(e, reconciler.StatusKindPending, e.kind(3), "both workers wait")
		e.set(func(s *reconciler.Settings) { s.MaxStuck = 1 })
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.kind(3), "applies to running operations as well")
		stuck.free(1)
		stuck.free(2)
		e.pass(time.Second)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxStuck, s.Timeout = 2, 0, time.Second }), reconciler.WithoutPruning())
}

// A target whose operations often get stuck for some time is only a slow target.
func TestTargetThatIsOftenStuckConverges(t *testing.T) {
	withStuck(t, []int{1, 3}, func(e *env, n int) {
		var mu sync.Mutex
		hit := map[uint64]int{}
		e.target.mu.Lock()
		e.target.stuckAfter = stuckAfter
		e.target.before = func(_ context.Context, c call) {
			if c.op != "prune" && c.id%3 == 0 {
				time.Sleep(time.Duration(c.id%7) * time.Second)
			}
		}
		e.target.mu.Unlock()
		e.target.deciding(func(c call) error {
			mu.Lock()
			defer mu.Unlock()
			if hit[c.id]++; c.op != "prune" && c.id%3 == 0 && hit[c.id] < 3 {
				return errors.New("late and failed")
			}
			return nil
		})
		for value := range 10 {
			e.put(value, ids(1, 30)...)
			e.pass(5 * time.Second)
			e.remove(ids(10, 12)...)
			e.loop.Prune()
		}
		e.pass(10 * time.Minute)
		e.eachDone()
		require.LessOrEqual(e, e.target.most, 2*n)
	})
}
