// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// If the whole table is loaded while the target is down, the loop reads each object once, when its turn
// comes. When the target is up, all objects are applied at once.
func TestTableLoadedWhileTheTargetIsDown(t *testing.T) {
	for _, kind := range []string{"single", "batches"} {
		t.Run(kind, func(t *testing.T) {
			const n = 100_000
			var p passes
			inBubble(t, func(e *env) {
				e.target.failing("down")
				e.put(1, ids(1, n)...)
				counted.Store(0)
				e.pass(time.Second)
				tried := len(e.target.take())
				require.LessOrEqual(e, tried, 1000+2*5, "a round, and probes")
				counts := p.during(func() { e.pass(29 * time.Second) })
				require.LessOrEqual(e, counts, int64(3*30))
				probes := len(e.target.take())
				require.Greater(e, probes, 2*25)
				require.LessOrEqual(e, probes, 2*30)
				require.Less(e, counted.Load(), int64(30_000), "reads of objects")

				e.target.failing("")
				e.pass(1500 * time.Millisecond)
				e.eachDone()
				require.LessOrEqual(e, len(e.target.take()), n+2)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				operate(kind)(e, cfg)
				p.count(e, cfg)
				countReads(e, cfg)
			}, reconciler.WithBreaker(reconciler.Breaker{}), reconciler.WithoutPruning())
		})
	}
}

// All objects have failed, and are written repeatedly while the target is down.
func TestTableRewrittenWhileTheTargetIsDown(t *testing.T) {
	const n = 2000
	everyWay(t, func(e *env) {
		e.open(n)
		for value := range 20 {
			e.put(value, ids(1, n)...)
			e.pass(100 * time.Millisecond)
		}
		e.target.take()
		start := time.Now()
		e.put(1000, ids(1, n)...)
		e.pass(8 * time.Second)
		probes := waves(start, e.target.take())
		require.GreaterOrEqual(e, len(probes), 7, "changed objects must not take the place of probes")
		for _, w := range probes {
			require.LessOrEqual(e, w.calls, 2)
		}
		e.target.failing("")
		e.pass(5 * time.Second)
		e.eachDone()
	}, withBreaker())
}

// If the target does not answer at all, the breaker opens after the configured number of failures and
// the operations that were running by then. Operations that were queued behind them do not run.
func TestBreakerOpensSoonWhenTheTargetHangs(t *testing.T) {
	singly(t, func(e *env) {
		var hangs atomic.Bool
		e.target.before = func(ctx context.Context, c call) {
			if hangs.Load() {
				<-ctx.Done()
				return
			}
			time.Sleep(10 * time.Microsecond)
		}
		e.target.deciding(func(call) error {
			if hangs.Load() {
				return context.DeadlineExceeded
			}
			return nil
		})
		e.put(1, ids(1, 2000)...)
		e.pass(time.Second)
		e.eachDone()
		e.target.take()

		hangs.Store(true)
		start := time.Now()
		e.put(2, ids(1, 2000)...)
		e.pass(30 * time.Second)
		calls := e.target.take()
		require.LessOrEqual(e, len(calls), 3+4+2*20)
		_, message, _ := e.health.Now()
		require.Contains(e, message, "breaker open")
		for _, w := range waves(start.Add(4*time.Second), calls) {
			if w.at > 0 {
				require.LessOrEqual(e, w.calls, 2, "at %s", w.at)
			}
		}

		hangs.Store(false)
		e.pass(5 * time.Second)
		e.eachDone()
	}, withBreaker(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
}

// A pause also stops the probes.
func TestPauseWhileTheBreakerIsOpen(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		e.open(100)
		e.pass(time.Minute)
		e.loop.Pause()
		synctest.Wait()
		e.target.take()
		require.LessOrEqual(e, p.during(func() { e.pass(time.Hour) }), int64(2))
		require.Empty(e, e.target.take())
		e.loop.Resume()
		synctest.Wait()
		require.Len(e, e.target.take(), 2, "probes")
		e.loop.Pause()
		e.target.failing("")
		e.pass(time.Hour)
		require.Empty(e, e.target.take())
		e.loop.Resume()
		e.pass(time.Second)
		e.eachDone()
	}, withBreaker())
}

// If all objects that could probe are paused, the loop makes no passes for probes.
func TestPausedProbesCostNoPasses(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		e.open(100)
		e.pass(time.Minute)
		e.loop.PauseObjects(func(o *object) bool { return o.ID <= 100 })
		e.pass(10 * time.Minute)
		e.target.take()
		require.LessOrEqual(e, p.during(func() { e.pass(24 * time.Hour) }), int64(2))
		require.Empty(e, e.target.take())
		e.target.failing("")
		e.put(1, 101)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindDone, e.kind(101), "a probe")
		e.loop.Resume()
		e.pass(time.Second)
		e.eachDone()
	}, withBreaker())
}

func TestStopWhileTheBreakerIsOpen(t *testing.T) {
	everyWay(t, func(e *env) {
		e.open(1000)
		e.pass(time.Minute + 50*time.Millisecond)
		start := time.Now()
		e.stop()
		require.Equal(e, start, time.Now())
	}, withBreaker())
}

// If all objects are deleted while the breaker is open, no object, no open breaker and no work is left
// when the target is up.
func TestNothingIsLeftOfObjectsDeletedBehindABreaker(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		e.open(100)
		e.remove(ids(1, 100)...)
		e.pass(time.Minute)
		e.target.failing("")
		e.pass(time.Second)
		e.eachDone()
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 0 object(s)", message)
		require.LessOrEqual(e, p.during(func() { e.pass(24 * time.Hour) }), int64(1))
	}, withBreaker())
}

// Each time the target goes down, the breaker opens with one series of probes: earlier series do not
// continue beside it.
func TestBreakerFollowsATargetThatGoesUpAndDown(t *testing.T) {
	everyWay(t, func(e *env) {
		for value := range 20 {
			e.target.failing("down")
			e.put(value, ids(1, 50)...)
			e.pass(3 * time.Second)
			_, message, _ := e.health.Now()
			require.Contains(e, message, "breaker open")
			e.target.take()
			start := time.Now()
			e.pass(4 * time.Second)
			require.Len(e, waves(start, e.target.take()), 5)
			e.target.failing("")
			e.pass(time.Second)
			e.eachDone()
			_, message, _ = e.health.Now()
			require.Equal(e, "OK, 50 object(s)", message)
		}
	}, withBreaker())
}
