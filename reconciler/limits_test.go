// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// limited runs a test with each kind of operations, with 1 and with 4 workers, each time with a new
// limiter.
func limited(t *testing.T, limit rate.Limit, burst int, test func(e *env, limiter *rate.Limiter), options ...reconciler.Option) {
	var limiter *rate.Limiter
	everyWayWith(t, func(e *env, cfg *reconciler.Config[*object]) {
		limiter = rate.NewLimiter(limit, burst)
		countReads(e, cfg)
		cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = limiter }))
	}, func(e *env) { test(e, limiter) }, options...)
}

// withinRate requires that no interval of time has more calls than the limit allows.
func withinRate(e *env, calls []call, limit float64, burst int) {
	e.Helper()
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for i := range calls {
		for _, ahead := range []int{burst, 10 * burst, 100 * burst} {
			if i+ahead >= len(calls) {
				continue
			}
			took := calls[i+ahead].at.Sub(calls[i].at)
			least := time.Duration(float64(ahead-burst+1) / limit * float64(time.Second))
			require.GreaterOrEqual(e, took+time.Microsecond, least, "%d operations from %d on", ahead+1, i)
		}
	}
}

func TestOperationLimitHolds(t *testing.T) {
	limited(t, 100, 5, func(e *env, _ *rate.Limiter) {
		start := time.Now()
		e.put(1, ids(1, 300)...)
		e.pass(time.Second)
		e.remove(ids(1, 100)...)
		e.pass(4 * time.Second)
		e.eachDone()
		calls := e.target.take()
		withinRate(e, calls, 100, 5)
		took := calls[len(calls)-1].at.Sub(start)
		require.LessOrEqual(e, took, time.Duration(len(calls))*10*time.Millisecond+50*time.Millisecond,
			"%d operations: the loop uses its permits", len(calls))
	})
}

// A shared limiter bounds the sum of its reconcilers, and every reconciler gets a part.
func TestSharedOperationLimitHolds(t *testing.T) {
	limited(t, 100, 1, func(e *env, limiter *rate.Limiter) {
		other := newTarget()
		cfg := e.config(reconciler.WithName("other"), reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = limiter }))
		cfg.Operations, cfg.SetStatus, cfg.GetStatus = other, (*object).SetOther, (*object).GetOther
		e.start(cfg)
		synctest.Wait()
		other.take()

		e.put(1, ids(1, 500)...)
		e.pass(5 * time.Second)
		mine, others := e.target.take(), other.take()
		require.Greater(e, len(mine), 50)
		require.Greater(e, len(others), 50)
		withinRate(e, append(mine, others...), 100, 1)
		require.Greater(e, len(mine)+len(others), 490, "the reconcilers use all permits")
		e.pass(10 * time.Second)
		e.eachDone()
	})
}

// Without a permit the loop reads nothing: its work is in proportion to its permits.
func TestNothingSpinsWithoutAPermit(t *testing.T) {
	limited(t, rate.Every(time.Minute), 1, func(e *env, limiter *rate.Limiter) {
		e.put(1, ids(1, 2000)...)
		e.pass(30 * time.Second)
		require.Len(e, e.target.take(), 1)
		// The loop reads half a round of the backlog, once.
		e.pass(2 * time.Minute)
		require.Len(e, e.target.take(), 2)
		counted.Store(0)
		e.pass(10 * time.Minute)
		require.Len(e, e.target.take(), 10)
		require.Less(e, counted.Load(), int64(10*40), "keys read for 10 operations")

		// The loop does not poll a limiter that allows nothing.
		limiter.SetLimit(0)
		e.pass(time.Minute)
		counted.Store(0)
		e.pass(time.Minute)
		require.Empty(e, e.target.take())
		require.Less(e, counted.Load(), int64(60*20), "keys read in a minute")
		limiter.SetLimit(rate.Inf)
		e.pass(time.Second)
		e.eachDone()
	})
}

// The next permit may come at the moment when the loop finds that it has none. The loop must not
// sleep then. The test runs in real time, since a bubble has no such moment.
func TestPermitThatComesBeforeTheSleepIsNotMissed(t *testing.T) {
	for _, n := range []int{1, 4} {
		e := newEnv(t)
		e.start(e.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.OperationLimiter = n, rate.NewLimiter(200_000, 1) })))
		ctx, cancel := context.WithTimeout(e.Context(), 30*time.Second)
		defer cancel()
		for i := range uint64(long.Times(200)) {
			_, _, err := e.loop.WaitUntilReconciled(ctx, e.put(1, i))
			require.NoError(e, err, "object %d", i)
		}
		e.stop()
	}
}

// A failed operation uses a permit; an operation that did not run uses none.
func TestPermitsAreNotLost(t *testing.T) {
	limited(t, 50, 10, func(e *env, limiter *rate.Limiter) {
		e.target.deciding(func(c call) error {
			if c.id%2 == 0 {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, ids(1, 10)...)
		e.pass(time.Millisecond)
		require.Len(e, e.target.take(), 10)
		require.InDelta(e, 0, limiter.Tokens(), 0.1)
		e.target.failing("")
		e.pass(10 * time.Second)
		e.eachDone()
		require.Len(e, e.target.take(), 5)
		require.InDelta(e, 10, limiter.Tokens(), 0.1)
	})
}

// While the limiter of rounds has no token, the loop answers questions and takes calls.
func TestQuestionsAreAnsweredWhileNoRoundIsAllowed(t *testing.T) {
	everyWayWith(t, func(_ *env, cfg *reconciler.Config[*object]) {
		cfg.Options = append(cfg.Options, reconciler.WithRoundLimits(10, rate.NewLimiter(0, 1)))
	}, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.put(1, 2)
		e.pass(time.Second)
		e.target.take()
		began := time.Now()
		require.Equal(e, inspect.ConditionRunning, e.loop.Snapshot(e.Context()).Condition)
		require.NotEqual(e, inspect.StateUnknown, e.loop.Explain(e.Context(), "2").State)
		_, err := e.loop.Retry(e.Context())
		require.NoError(e, err)
		e.loop.Pause()
		synctest.Wait()
		require.Equal(e, inspect.ConditionPaused, e.loop.Snapshot(e.Context()).Condition)
		e.loop.Resume()
		synctest.Wait()
		require.Equal(e, began, time.Now())
		require.Empty(e, e.target.take())
		e.set(func(s *reconciler.Settings) { s.RoundLimiter = nil })
		e.pass(time.Second)
		e.eachDone()
	})
}

// An idle loop does not wake up to wait for a permit. Later work waits for one, and so does a retry.
func TestIdleLoopDoesNotWakeWithoutAPermit(t *testing.T) {
	for _, limit := range []rate.Limit{0, rate.Every(time.Hour)} {
		var p passes
		var limiter *rate.Limiter
		everyWayWith(t, func(e *env, cfg *reconciler.Config[*object]) {
			p.count(e, cfg)
			limiter = rate.NewLimiter(limit, 2)
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = limiter }))
		}, func(e *env) {
			e.put(1, 1, 2)
			e.pass(time.Second)
			require.Len(e, e.target.take(), 2)
			e.eachDone()
			require.Zero(e, p.during(func() { e.pass(10 * time.Minute) }))
			e.remove(1)
			e.target.failingFor(2, errPlain)
			e.put(2, 2)
			e.pass(time.Second)
			require.Empty(e, e.target.take())
			limiter.SetLimit(1)
			e.pass(10 * time.Second)
			e.target.failing("")
			limiter.SetLimit(100)
			e.pass(time.Minute)
			e.eachDone()
		})
	}
}
