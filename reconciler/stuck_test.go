// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
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
	withStuck(t, []int{3}, func(e *env, n int) {
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

// With a stuck operation on every worker nothing else runs, and health says why. A worker that is added runs the rest,
// also objects that were handed to the workers before.
func TestHealthSaysThatNoWorkerIsFree(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, time.Hour} {
		withStuck(t, []int{2, 4}, func(e *env, n int) {
			// After quick operations, several are queued for each worker.
			e.put(1, ids(100, 150)...)
			e.pass(time.Second)
			hung, rest := ids(1, uint64(n)), ids(uint64(n)+1, uint64(n)+3)
			stuck := e.target.stick(hung...)
			e.put(1, append(hung, rest...)...)
			e.pass(after)
			require.Equal(e, 3, e.notDone(rest...))
			if after == time.Hour {
				level, message, err := e.health.Now()
				require.Equal(e, cell.StatusDegraded, level)
				require.Equal(e, fmt.Sprintf("%d operation(s) stuck, no worker is free", n), message)
				require.ErrorContains(e, err, "update of 0x0000000000000001 is stuck")
			}
			e.set(func(s *reconciler.Settings) { s.Concurrency = n + 1 })
			e.pass(time.Millisecond)
			require.Zero(e, e.notDone(rest...))
			for _, id := range hung {
				stuck.free(id)
			}
			e.pass(time.Second)
			e.eachDone()
		})
	}
}

// Explain of an object that waits for a worker names the operation that has one for longest.
func TestExplainSaysThatNoWorkerIsFree(t *testing.T) {
	withStuck(t, []int{2}, func(e *env, _ int) {
		notes := func() string { return strings.Join(e.loop.Explain(e.Context(), "3").Notes, ", ") }
		stuck := e.target.stick(1, 2)
		e.put(1, ids(1, 3)...)
		e.pass(stuckAfter - time.Millisecond)
		require.Empty(e, notes())
		e.pass(2 * time.Millisecond)
		require.Contains(e, notes(), "no worker is free: update of 0x0000000000000001 is stuck, running since ")
		stuck.free(1)
		e.pass(time.Second)
		require.Empty(e, notes())
		require.Equal(e, reconciler.StatusKindDone, e.kind(3))
		stuck.free(2)
		e.pass(time.Second)
		e.eachDone()
	})
}

// A transaction has a snapshot of all tables. While an operation is stuck, the loop does not keep a
// transaction that the operation no longer uses: writes of other tables take no more memory than
// without the stuck operation.
func TestStuckOperationKeepsNoSnapshot(t *testing.T) {
	withStuck(t, []int{2}, func(e *env, _ int) {
		others, err := statedb.NewTable(e.db, "others", idIndex)
		require.NoError(e, err)
		write := func(o *object) {
			wtxn := e.db.WriteTxn(others)
			_, _, err := others.Insert(wtxn, o)
			require.NoError(e, err)
			wtxn.Commit()
		}
		old := &object{ID: 1, Note: "old"}
		write(old)
		kept := weak.Make(old)
		old = nil
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Minute)
		// The loop has rounds with the new snapshots. statedb may keep the one before the last.
		for i := range uint64(3) {
			write(&object{ID: 1, Note: "new"})
			e.put(1, 2+i)
			e.pass(time.Minute)
		}
		for range 3 {
			runtime.GC()
			synctest.Wait()
		}
		require.Nil(e, kept.Value())
		stuck.free(1)
		e.pass(time.Second)
		e.eachDone()
	})
}

// Health reports a call that hangs for a minute until it returns. No timeout is needed, and the
// call may run on the goroutine of the loop.
func TestHungCallIsNamed(t *testing.T) {
	everyWay(t, func(e *env) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(time.Minute - time.Millisecond)
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		e.pass(2 * time.Millisecond)
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "1 operation(s) stuck", message)
		require.ErrorContains(e, err, "running since ")
		require.ErrorContains(e, err, "update of ")
		reports := len(e.health.History())
		e.pass(24 * time.Hour)
		require.Len(e, e.health.History(), reports, "reported once")
		stuck.free(1)
		e.pass(time.Second)
		level, message, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level, message)
		e.eachDone()
	})
}

// The same holds without a timeout: a probe that runs for a minute proves nothing, and the breaker
// does not wait for it.
func TestHangingProbeDoesNotKeepTheBreakerOpen(t *testing.T) {
	inBubble(t, func(e *env) {
		e.open(20)
		stuck := e.target.stick(1, 2)
		e.pass(time.Second)
		e.target.failing("")
		e.pass(5 * time.Minute)
		require.Equal(e, reconciler.StatusKindDone, e.kind(20))
		stuck.free(1)
		stuck.free(2)
		e.pass(time.Minute)
		e.eachDone()
		synctest.Wait()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), breaksAfter(3), reconciler.WithoutPruning())
}

// The loop goes to sleep before or after the worker has begun; some runs make both likely. Nothing
// else wakes the loop meanwhile.
func TestIdleLoopReportsAHangingOperation(t *testing.T) {
	for range long.Times(5) {
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

// Slow or stuck operations do not count as load: a single write beside them is as fast as without them.
func TestSingleWriteBesideSlowOperationsIsNotKeptWaiting(t *testing.T) {
	for _, n := range []uint64{6, 64} {
		inBubble(t, func(e *env) {
			stuck := e.target.stick(ids(1, n)...)
			e.put(1, ids(1, n)...)
			e.pass(10 * time.Second)
			start := time.Now()
			for value := range 100 {
				e.put(value, 1000)
				_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, e.get(1000))
				require.NoError(e, err)
			}
			require.Zero(e, time.Since(start), "for 100 single writes")
			for id := range n {
				stuck.free(id + 1)
			}
			e.pass(time.Minute)
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 70 }), reconciler.WithoutPruning())
	}
}
