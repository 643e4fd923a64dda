// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func parked() Workload {
	return Workload{
		Name: "parked",
		About: "100,000 rows that are done, then the same rows failed with their retry an hour away. Healthy rows " +
			"inserted 5 ms apart, 500 before and 500 after: the cost of parked failures for all other rows.",
		Contenders: []string{subject.Statekeel, subject.Peer, subject.PeerInf},
		Runs:       fewRuns,
		Headline:   "p50_growth",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{RetryMin: farAway, RetryMax: farAway}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureParked(ctx, env, sys, env.Rows(100_000), env.Inserts(500))
			})
		},
	}
}

func measureParked(ctx context.Context, env *Env, sys subject.System, n, inserts uint64) (Figures, error) {
	// The table has the same number of rows both times: the failures are the only difference.
	if err := loadDone(ctx, sys, n); err != nil {
		return nil, err
	}
	healthy, none, err := measureHealthy(ctx, env, sys, n, inserts, spacing)
	if err != nil {
		return nil, err
	}

	breakTarget(sys.Targets()[0], n)
	begin := time.Now()
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := sys.Await(ctx, n-1, subject.Failed); err != nil {
		return nil, err
	}
	parking := time.Since(begin)
	burdened, some, err := measureHealthy(ctx, env, sys, n+inserts, inserts, spacing)
	if err != nil {
		return nil, err
	}

	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Failed: n, subject.Done: 2 * inserts})
	c.calls(sys, 2*n+2*inserts, 0)
	p50none, p50parked := quantile(healthy, 0.50), quantile(burdened, 0.50)
	return Figures{
		less("p50_growth", "x", float64(p50parked)/float64(p50none)),
		less("p50_none", "us", micros(p50none)),
		less("p50_parked", "us", micros(p50parked)),
		less("p99_none", "us", micros(quantile(healthy, 0.99))),
		less("p99_parked", "us", micros(quantile(burdened, 0.99))),
		cost("cpu_none", "us/insert", micros(none.cpu), inserts),
		cost("cpu_parked", "us/insert", micros(some.cpu), inserts),
		less("parking", "s", parking.Seconds()),
	}, c.err()
}

// measureHealthy is probe with the usage of the process.
func measureHealthy(ctx context.Context, env *Env, sys subject.System, first, n uint64, gap time.Duration) (latencies []time.Duration, used usage, err error) {
	used, err = env.measure(func() (err error) {
		latencies, err = probe(ctx, sys, first, n, gap)
		return err
	})
	return latencies, used, err
}
