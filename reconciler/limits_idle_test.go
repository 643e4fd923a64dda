// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// While the limiter of rounds has no token, the loop answers questions and takes calls.
func TestQuestionsAreAnsweredWhileNoRoundIsAllowed(t *testing.T) {
	for _, limit := range []rate.Limit{0, rate.Every(time.Hour)} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			everyWayWith(t, func(_ *env, cfg *reconciler.Config[*object]) {
				cfg.Options = append(cfg.Options, reconciler.WithRoundLimits(10, rate.NewLimiter(limit, 1)))
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
				require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.RoundLimiter = nil }))
				e.pass(time.Second)
				e.eachDone()
			})
		})
	}
}

// An idle loop does not wake up to wait for a permit. Later work waits for one.
func TestIdleLoopDoesNotWakeWithoutAPermit(t *testing.T) {
	for _, limit := range []rate.Limit{0, rate.Every(time.Hour)} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
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
				e.put(2, 2)
				e.pass(time.Second)
				require.Empty(e, e.target.take())
				limiter.SetLimit(1)
				e.pass(10 * time.Second)
				require.Len(e, e.target.take(), 2)
				e.eachDone()

				// A retry waits for its time and for a permit.
				limiter.SetLimit(limit)
				e.target.failing("no")
				e.put(3, 2)
				e.pass(10 * time.Minute)
				e.target.failing("")
				limiter.SetLimit(100)
				e.pass(time.Minute)
				e.eachDone()
			})
		})
	}
}
