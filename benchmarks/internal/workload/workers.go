// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partSpin = "spin"
	partNoop = "noop"
)

// spinTime is the CPU time of an operation.
const spinTime = 20 * time.Microsecond

// workers compares four workers with one.
func workers() Workload {
	return Workload{
		Name: "workers-4",
		About: "100,000 rows inserted in transactions of 1000, and operations that take 20 us of CPU " +
			"time each; from the first insert until all are done. Statekeel has 4 workers, and 1 beside it. In " +
			"another process (noop_...): 300,000 rows, and operations that do nothing, for what workers cost.",
		Contenders: []string{subject.Statekeel4, subject.Statekeel, subject.Peer, subject.Floor},
		Runs:       fewRuns,
		Headline:   "throughput",
		Parts:      []string{partSpin, partNoop},
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				if env.Part == partNoop {
					return measureIdleWorkers(ctx, env, sys, env.Rows(300_000))
				}
				return measureSpin(ctx, env, sys, env.Rows(100_000))
			})
		},
	}
}

func measureSpin(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	steps := stepsFor(spinTime)
	figures, err := measureWork(ctx, env, sys, n, spinning(steps))
	return append(figures, info("spin", "steps/operation", float64(steps))), err
}

func measureIdleWorkers(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	used, _, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}
	return Figures{
		rate("noop_throughput", "objects/s", n, used.wall),
		cost("noop_cpu", "us/object", micros(used.cpu), n),
		cost("noop_allocs", "allocs/object", float64(used.allocs), n),
	}, checkDone(sys, n)
}
