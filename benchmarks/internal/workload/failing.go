// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func failing100k() Workload {
	return Workload{
		Name: "failing-100k",
		About: "100,000 rows whose every operation fails, backoff 100 ms to 1 s, watched for 5 s " +
			"after each was tried once. Then the target heals, and the time until all rows are done is taken.",
		Contenders: bothLedgers(),
		Runs:       fewRuns,
		Headline:   "cpu",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{RetryMin: 100 * time.Millisecond, RetryMax: time.Second}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureFailing(ctx, env, sys, env.Rows(100_000))
			})
		},
	}
}

func measureFailing(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	target := sys.Targets()[0]
	outage := breakTarget(target, n)

	begin := time.Now()
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := wait(ctx, outage.attempted.Reached(n), "a first attempt at every row"); err != nil {
		return nil, err
	}
	firstPass := time.Since(begin)

	var attempts uint64
	used, err := env.measure(func() error {
		before := target.Updates.Load()
		if err := pause(ctx, env.Window); err != nil {
			return err
		}
		// A short window may fall between two attempts.
		if err := wait(ctx, target.Updates.Reached(before+1), "a retry"); err != nil {
			return err
		}
		attempts = target.Updates.Load() - before
		return nil
	})
	if err != nil {
		return nil, err
	}

	var c checks
	c.equal("rows that are Done while the target is down", sys.Count()[subject.Done], 0)

	healed, err := heal(ctx, sys, outage, n)
	if err != nil {
		return nil, err
	}

	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.equal("successful Update calls", outage.healed.Load(), n)
	c.equal("Delete calls", target.Deletes.Load(), 0)
	return Figures{
		cost("cpu", "us/attempt", micros(used.cpu), attempts),
		cost("alloc_bytes", "B/attempt", float64(used.bytes), attempts),
		cost("allocs", "allocs/attempt", float64(used.allocs), attempts),
		info("attempts", "attempts/s", float64(attempts)/used.wall.Seconds()),
		less("first_pass", "s", firstPass.Seconds()),
		less("heal", "s", healed.Seconds()),
	}, c.err()
}
