// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// tinyLimits have waits that do not fit into a time.Duration.
var tinyLimits = []rate.Limit{1e-10, 1e-11, 1e-300, math.SmallestNonzeroFloat64}

// The next permit of a tiny limit never comes: the loop runs the burst and does not spin.
func TestTinyLimitsAllowTheBurstAndDoNotSpin(t *testing.T) {
	limiters := map[string]func(*rate.Limiter) reconciler.Option{
		"operations": func(l *rate.Limiter) reconciler.Option {
			return reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = l })
		},
		"rounds": func(l *rate.Limiter) reconciler.Option { return reconciler.WithRoundLimits(1, l) },
	}
	for _, limit := range tinyLimits {
		for name, option := range limiters {
			t.Run(fmt.Sprintf("%s, %g/s", name, float64(limit)), func(t *testing.T) {
				var p passes
				everyWayWith(t, func(e *env, cfg *reconciler.Config[*object]) {
					p.count(e, cfg)
					cfg.Options = append(cfg.Options, option(rate.NewLimiter(limit, 2)))
				}, func(e *env) {
					e.put(1, ids(1, 100)...)
					e.pass(time.Second)
					ran := len(e.target.take())
					require.LessOrEqual(e, ran, 2)
					require.Less(e, p.during(func() { e.pass(10 * time.Second) }), int64(250))
					require.Empty(e, e.target.take())
					require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) {
						s.OperationLimiter, s.RoundLimiter = nil, nil
					}))
					e.pass(time.Second)
					e.eachDone()
				})
			})
		}
	}
}

// A tiny limit of refreshes allows the burst.
func TestTinyLimitOfRefreshesAllowsTheBurst(t *testing.T) {
	for _, limit := range tinyLimits {
		inBubble(t, func(e *env) {
			e.put(1, ids(1, 100)...)
			e.pass(time.Second)
			e.target.take()
			e.pass(10 * time.Hour)
			require.LessOrEqual(e, len(e.target.take()), 2)
			synctest.Wait()
		}, nil, reconciler.WithRefreshing(time.Hour, rate.NewLimiter(limit, 2)), reconciler.WithoutPruning())
	}
}
