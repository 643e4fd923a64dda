// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// slowOperation is the duration of an operation that waits for its target: a system call that sleeps, or an
// answer from the network.
const slowOperation = time.Millisecond

func slowTarget() Workload {
	return Workload{
		Name: "slow-1ms",
		About: "10,000 rows inserted in transactions of 1000, and a target that sleeps a millisecond for each; from " +
			"the first insert until all are done. Statekeel has 64 workers, the peer does one operation at a time.",
		Contenders: []string{subject.Statekeel64, subject.Peer},
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureWork(ctx, env, sys, env.Rows(10_000), func(uint64) error {
					time.Sleep(slowOperation)
					return nil
				})
			})
		},
	}
}

// measureWork measures the insertion of n rows until they are done, with operations that take time.
func measureWork(ctx context.Context, env *Env, sys subject.System, n uint64, work func(id uint64) error) (Figures, error) {
	tally := tallied(sys.Targets()[0], n, work)
	used, _, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}
	var c checks
	c.worked(sys, tally, n, 1)
	return Figures{
		rate("throughput", "objects/s", n, used.wall),
		cost("cpu", "us/object", micros(used.cpu), n),
		info("in_flight", "operations", float64(tally.inFlight())),
	}, c.err()
}
