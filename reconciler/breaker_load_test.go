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

// The whole table is loaded while the target is down: that costs a look at each object when
// its turn comes and no more, and when the target is up all of it is done at once.
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
				require.Less(e, counted.Load(), int64(30_000), "looks at objects")

				e.target.failing("")
				e.pass(1500 * time.Millisecond)
				e.eachDone()
				require.LessOrEqual(e, len(e.target.take()), n+2)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				operate(kind)(e, cfg)
				p.count(e, cfg)
				countLooks(e, cfg)
			}, reconciler.WithBreaker(reconciler.Breaker{}), reconciler.WithoutPruning())
		})
	}
}

// All objects have failed and are written again and again while the target is down.
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
		require.GreaterOrEqual(e, len(probes), 7, "changed objects that are to be looked at first do not take the place of probes")
		for _, w := range probes {
			require.LessOrEqual(e, w.calls, 2)
		}
		e.target.failing("")
		e.pass(5 * time.Second)
		e.eachDone()
	}, withBreaker())
}

// A target that does not answer at all is found out to be down after as many operations as
// it takes, and those that were under way then: what was queued behind them is not run.
func TestHangingTargetIsFoundOutSoon(t *testing.T) {
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
	}, withBreaker(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout, s.MaxStuck = time.Second, 0 }))
}

// A pause holds the probes as well.
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

// Everything is paused that could be a probe, and the loop does not go round for one.
func TestAllIsPausedWhileTheBreakerIsOpen(t *testing.T) {
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

// Objects that are deleted and were never applied leave nothing behind, and neither does a
// breaker of which everything has gone.
func TestAllIsDeletedWhileTheBreakerIsOpen(t *testing.T) {
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

// Several waits for probes at a time do not add up: the breaker opens and closes as often
// as the target goes down and up.
func TestTargetThatGoesUpAndDown(t *testing.T) {
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
