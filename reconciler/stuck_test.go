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
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// stuckAfter is the time after which an operation with a timeout of a second is stuck.
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

// withStuck runs a test with single operations and with batches of one, with n workers. Options
// may change that.
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
					append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}, options...)...)
			})
		}
	}
}

// A stuck operation keeps its worker. Only its own object waits while another worker is free, and
// health names it until it returns.
func TestStuckOperationHoldsUpOnlyItsOwnObject(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, n int) {
		hung := uint64(n) - 1
		stuck := e.target.stick(ids(1, hung)...)
		e.put(1, ids(1, hung+3)...)
		e.pass(stuckAfter - time.Millisecond)
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)

		e.pass(2 * time.Millisecond)
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, fmt.Sprintf("%d operation(s) stuck", hung), message)
		require.ErrorContains(e, err, "update of 0x0000000000000001 is stuck, running since ")
		e.requireState(inspect.StateStuck, 1)

		// The object does not run a second time, whatever changes.
		e.put(2, ids(1, hung+3)...)
		e.pass(time.Hour)
		require.Equal(e, reconciler.StatusKindPending, e.kind(1))
		for id := hung + 1; id <= hung+3; id++ {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
		}

		for _, id := range ids(1, hung) {
			stuck.free(id)
		}
		e.pass(time.Second)
		e.eachDone()
		require.LessOrEqual(e, e.target.most, n)
		level, message, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level, message)
	})
}

// With a stuck operation on every worker nothing else runs, and health says why.
func TestHealthSaysThatNoWorkerIsFree(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, n int) {
		stuck := e.target.stick(ids(1, uint64(n))...)
		e.put(1, ids(1, uint64(n)+1)...)
		e.pass(time.Hour)
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, fmt.Sprintf("%d operation(s) stuck, no worker is free", n), message)
		for _, id := range ids(1, uint64(n)) {
			require.ErrorContains(e, err, fmt.Sprintf("update of 0x%016x is stuck", id))
		}
		require.Equal(e, reconciler.StatusKindPending, e.kind(uint64(n)+1))

		stuck.free(1)
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.kind(uint64(n)+1))
		_, message, _ = e.health.Now()
		require.Equal(e, fmt.Sprintf("%d operation(s) stuck", n-1), message)
		for _, id := range ids(2, uint64(n)) {
			stuck.free(id)
		}
		e.pass(time.Second)
		e.eachDone()
	})
}

// It does so before and after the operations count as stuck, and for objects that were handed to the
// workers before.
func TestRaisedConcurrencyStartsWorkersWhileAllHang(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, time.Hour} {
		withStuck(t, []int{2, 4}, func(e *env, n int) {
			// After quick operations, several are queued for each worker.
			e.put(1, ids(100, 150)...)
			e.pass(time.Second)
			stuck := e.target.stick(ids(1, uint64(n))...)
			e.put(1, ids(1, uint64(n)+3)...)
			e.pass(after)
			require.Equal(e, reconciler.StatusKindPending, e.kind(uint64(n)+1))

			e.set(func(s *reconciler.Settings) { s.Concurrency = n + 1 })
			e.pass(time.Millisecond)
			for id := uint64(n) + 1; id <= uint64(n)+3; id++ {
				require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
			}
			for _, id := range ids(1, uint64(n)) {
				require.Equal(e, reconciler.StatusKindPending, e.kind(id))
				stuck.free(id)
			}
			e.pass(time.Second)
			e.eachDone()
		})
	}
}

// The outcome of a stuck operation counts when it returns: it is written if the object has not
// changed, and dropped otherwise.
func TestOutcomeOfAStuckOperationIsCommitted(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, _ int) {
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

// An operation that observes its context is not stuck, even if it is a little late.
func TestOperationsThatObserveTheirContextAreNotStuck(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, _ int) {
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

// 9: a prune waits for a stuck operation, and other objects do not wait for the prune.
func TestPruneWaitsForAStuckOperation(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, _ int) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Millisecond)
		e.loop.Prune()
		e.pass(time.Hour)
		require.Empty(e, e.target.take())
		e.put(1, 2)
		synctest.Wait()
		require.Equal(e, []string{"update(2)"}, e.target.calls())
		stuck.free(1)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)", "prune(2)"}, e.target.calls())
		e.eachDone()
	})
}

// A stuck operation keeps its group in flight, since it may still change objects of the group.
func TestStuckOperationKeepsItsGroup(t *testing.T) {
	withStuckAnd(t, []int{2, 4}, serially(byNote), func(e *env, _ int) {
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
	withStuck(t, []int{2, 4}, func(e *env, _ int) {
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

// A target whose operations often get stuck for some time is only a slow target.
func TestTargetThatIsOftenStuckConverges(t *testing.T) {
	withStuck(t, []int{2, 4}, func(e *env, n int) {
		var mu sync.Mutex
		hit := map[uint64]int{}
		e.target.mu.Lock()
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
		require.LessOrEqual(e, e.target.most, n)
	})
}
