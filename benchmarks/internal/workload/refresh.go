// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// freshSpacing is the pause between two fresh rows inserted during a refresh storm.
const freshSpacing = 10 * time.Millisecond

func refresh() Workload {
	return Workload{
		Name: "refresh",
		About: "100,000 rows refreshed every second with no limit on the rate, watched for 5 s from the first " +
			"refresh: the cost of a refresh, the age of the oldest status seen in a row, and how long a fresh row, " +
			"inserted every 10 ms meanwhile, takes until it is done.",
		Contenders: bothLedgers(),
		Runs:       fewRuns,
		Headline:   "cpu",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{RefreshEvery: env.Refresh}, func(sys subject.System) (Figures, error) {
				return measureRefresh(ctx, env, sys, env.Rows(100_000))
			})
		},
	}
}

func measureRefresh(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	target := sys.Targets()[0]
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := wait(ctx, target.Updates.Reached(n+1), "the first refresh"); err != nil {
		return nil, err
	}

	var (
		latencies []time.Duration
		oldest    time.Duration
		hasAge    bool // false if the rows carry no status
		refreshes uint64
	)
	used, err := env.measure(func() error {
		before := target.Updates.Load()
		for begin := time.Now(); time.Since(begin) < env.Window; {
			latency, err := probe(ctx, sys, n+uint64(len(latencies)), 1, freshSpacing)
			if err != nil {
				return err
			}
			latencies = append(latencies, latency...)
			if at := sys.Oldest(); !at.IsZero() {
				hasAge, oldest = true, max(oldest, time.Since(at))
			}
		}
		// A short window may fall between two refreshes.
		fresh := uint64(len(latencies))
		if err := wait(ctx, target.Updates.Reached(before+fresh+1), "a refresh"); err != nil {
			return err
		}
		refreshes = target.Updates.Load() - before - fresh
		return nil
	})
	if err != nil {
		return nil, err
	}

	var c checks
	rows := sys.Count()
	c.equal("rows", rows[subject.Done]+rows[subject.Waiting], n+uint64(len(latencies)))
	c.equal("rows that are Error", rows[subject.Failed], 0)
	c.equal("Delete calls", target.Deletes.Load(), 0)
	figures := Figures{
		cost("cpu", "us/refresh", micros(used.cpu), refreshes),
		rate("rate", "refreshes/s", refreshes, used.wall),
	}
	if hasAge {
		figures = append(figures, less("oldest", "s", oldest.Seconds()))
	}
	return append(figures,
		less("fresh_p50", "us", micros(quantile(latencies, 0.50))),
		less("fresh_p99", "us", micros(quantile(latencies, 0.99))),
		less("fresh_max", "us", micros(quantile(latencies, 1))),
	), c.err()
}
