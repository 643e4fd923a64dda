// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

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

// With a timeout, the call is reported after the timeout and the grace period, if that is later.
func TestHungCallWithALongTimeoutIsNamedLater(t *testing.T) {
	everyWay(t, func(e *env) {
		stuck := e.target.stick(1)
		e.put(1, 1)
		e.pass(10*time.Minute + 900*time.Millisecond)
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		e.pass(200 * time.Millisecond)
		level, _, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.ErrorContains(e, err, "update of ")
		stuck.free(1)
		e.pass(time.Second)
		e.eachDone()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = 10 * time.Minute }))
}

// A prune that hangs is reported as well, beside other problems.
func TestHungPruneIsNamed(t *testing.T) {
	for _, workers := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.target.deciding(func(c call) error {
				if c.op == "update" && c.id == 1 {
					return context.DeadlineExceeded
				}
				return nil
			})
			e.put(1, 1, 2)
			e.pass(10 * time.Millisecond)
			gate := make(chan struct{})
			e.target.mu.Lock()
			e.target.before = func(_ context.Context, c call) {
				if c.op == "prune" {
					<-gate
				}
			}
			e.target.mu.Unlock()
			e.loop.Prune()
			e.pass(2 * time.Minute)
			_, message, err := e.health.Now()
			require.Equal(e, "1 error(s), 1 operation(s) stuck", message)
			require.ErrorContains(e, err, "prune, running since ")
			require.ErrorContains(e, err, "deadline exceeded")
			close(gate)
			e.pass(time.Second)
			_, message, _ = e.health.Now()
			require.Equal(e, "1 error(s)", message)
			e.target.failing("")
			e.pass(2 * time.Minute)
			e.eachDone()
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithoutPruning())
	}
}

// The watchdog does not report calls that are fast enough.
func TestQuickCallsAreNotNamed(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.takes(20 * time.Second)
		for i := range 20 {
			e.put(i, 1, 2)
			e.pass(time.Minute)
		}
		for _, report := range e.health.History() {
			require.NotContains(e, report, "stuck")
		}
		e.target.takes(0)
		e.pass(10 * time.Minute)
		e.eachDone()
	})
}

// A stuck probe counts as failed. The breaker continues to probe with the remaining workers, and
// closes when the target is up again.
func TestStuckProbeDoesNotKeepTheBreakerOpen(t *testing.T) {
	for _, kind := range operationKinds {
		b := reconciler.Breaker{Failures: 3, MaxInterval: time.Second}
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.failing("down")
				e.put(1, ids(1, 20)...)
				e.pass(10 * time.Millisecond)
				_, message, _ := e.health.Now()
				require.Contains(e, message, "breaker open")
				// The next two probes hang, and then the target is up again.
				gate, hung := make(chan struct{}), 0
				e.target.mu.Lock()
				e.target.before = func(context.Context, call) {
					e.target.mu.Lock()
					hung++
					mine := hung <= 2
					e.target.mu.Unlock()
					if mine {
						<-gate
					}
				}
				e.target.mu.Unlock()
				e.pass(time.Second)
				e.target.failing("")
				e.pass(2 * time.Minute)
				done := 0
				for o := range e.table.All(e.db.ReadTxn()) {
					if o.Status.Kind == reconciler.StatusKindDone {
						done++
					}
				}
				require.Equal(e, 18, done)
				_, message, _ = e.health.Now()
				require.Contains(e, message, "2 operation(s) stuck")
				close(gate)
				e.pass(time.Minute)
				e.eachDone()
			}, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = 4, time.Second }), reconciler.WithRoundLimits(1, nil),
				reconciler.WithBreaker(b), reconciler.WithoutPruning())
		})
	}
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
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), withBreaker(), reconciler.WithoutPruning())
}
