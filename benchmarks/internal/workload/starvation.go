// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// victimBackoff is when the victim's retry is due after its failure.
const victimBackoff = 50 * time.Millisecond

func starvation() Workload {
	return Workload{
		Name: "starvation",
		About: "One row fails once, its retry due 50 ms later, while a writer keeps at least 10,000 changed rows " +
			"waiting. How long after the failure, and after being due, the retry comes; one that has not come " +
			"10 s after being due is given as a lower bound.",
		Contenders: both(),
		Runs:       fewRuns,
		Headline:   "retry_wait",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{RetryMin: victimBackoff, RetryMax: victimBackoff}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureStarvation(ctx, env, sys)
			})
		},
	}
}

func measureStarvation(ctx context.Context, env *Env, sys subject.System) (Figures, error) {
	flood := newFlood(sys, env.Rows(100_000))
	defer flood.stop()
	var (
		wait    time.Duration
		retried bool
	)
	used, err := env.measure(func() (err error) {
		if err := flood.start(); err != nil {
			return err
		}
		wait, retried, err = flood.awaitRetry(ctx, victimBackoff+env.Cap)
		flood.stop()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := flood.err(); err != nil {
		return nil, err
	}
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return nil, err
	}

	var c checks
	rows := flood.inserted.Load()
	c.atLeast("rows waiting at all times until the retry", flood.leastWaiting(), lowWater)
	c.rows(sys, map[subject.Kind]uint64{subject.Done: rows})
	c.calls(sys, rows+1, 0)
	came := 0.0
	if retried {
		came = 1
	}
	return Figures{
		{Metric: "retry_wait", Unit: "ms", Better: Less, Value: millis(wait), AtLeast: !retried},
		{Metric: "late", Unit: "ms", Better: Less, Value: max(0, millis(wait-victimBackoff)), AtLeast: !retried},
		{Metric: "retried", Unit: "of 1", Better: More, Value: came},
		info("stream", "objects/s", float64(rows)/used.wall.Seconds()),
		info("least_waiting", "objects", float64(flood.leastWaiting())),
	}, c.err()
}
