// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partLatency = "latency"
	partBurst   = "burst"
)

func backToBack() Workload {
	return Workload{
		Name: "latency-b2b",
		About: "One row inserted on an idle system, and the next as soon as a watch channel has shown it done, " +
			"2000 times. In another process (burst_...): 100,000 rows inserted one by one as fast as it goes, " +
			"with batch operations, for what is left of batching under load.",
		Contenders: append(bothLedgers(), subject.PeerInf, subject.Floor),
		Runs:       fewRuns,
		Headline:   "p50",
		// Without its limiter the peer is fast but forms no batches, so only its default variant can be
		// compared in both parts.
		DefaultsOnly: true,
		Parts:        []string{partLatency, partBurst},
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			if env.Part == partBurst {
				return env.with(ctx, subject.Options{Batch: true}, func(sys subject.System) (Figures, error) {
					return measureBurst(ctx, env, sys, env.Rows(100_000))
				})
			}
			return measureLatency(ctx, env, 2000, 0)
		},
	}
}

func spaced() Workload {
	return Workload{
		Name:       "latency-spaced",
		About:      "One row inserted on an idle system every 5 ms, until a watch channel has shown it done, 1000 times.",
		Contenders: []string{subject.Statekeel, subject.Peer, subject.Floor},
		Runs:       fewRuns,
		Headline:   "p50",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return measureLatency(ctx, env, 1000, spacing)
		},
	}
}

func measureLatency(ctx context.Context, env *Env, inserts uint64, gap time.Duration) (Figures, error) {
	n := env.Inserts(inserts)
	return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
		var latencies []time.Duration
		used, err := env.measure(func() (err error) {
			latencies, err = probe(ctx, sys, 0, n, gap)
			return err
		})
		if err != nil {
			return nil, err
		}
		return Figures{
			less("p50", "us", micros(quantile(latencies, 0.50))),
			less("p99", "us", micros(quantile(latencies, 0.99))),
			less("max", "us", micros(quantile(latencies, 1))),
			cost("cpu", "us/insert", micros(used.cpu), n),
		}, checkDone(sys, n)
	})
}

func measureBurst(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	used, err := env.measure(func() error {
		for id := range n {
			if err := sys.Insert(id, 1); err != nil {
				return err
			}
		}
		return sys.Await(ctx, n-1, subject.Done)
	})
	if err != nil {
		return nil, err
	}
	var c checks
	batches := sys.Targets()[0].Batches.Load()
	c.atLeast("batches", batches, 1)
	if err := c.err(); err != nil {
		return nil, err
	}
	return Figures{
		rate("burst_throughput", "objects/s", n, used.wall),
		cost("burst_cpu", "us/object", micros(used.cpu), n),
		{Metric: "burst_batch", Unit: "objects/batch", Better: More, Value: float64(n) / float64(batches)},
	}, checkDone(sys, n)
}
