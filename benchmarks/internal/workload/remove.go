// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func remove() Workload {
	return Workload{
		Name: "delete",
		About: "1,000,000 rows that are done, deleted in transactions of 1000; from the first deletion " +
			"to the last Delete call. The heap is read 2 s later: what is still held of the deleted rows.",
		Contenders: throughput(),
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureRemoval(ctx, env, sys, env.Rows(1_000_000))
			})
		},
	}
}

func measureRemoval(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	before := heapInUse()
	if err := loadDone(ctx, sys, n); err != nil {
		return nil, err
	}
	used, err := env.measure(func() error {
		last := sys.Targets()[0].Deletes.Reached(n)
		if err := inBatches(0, n, writeBatch, sys.Remove); err != nil {
			return err
		}
		return wait(ctx, last, "the last Delete call")
	})
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, env.Settle); err != nil {
		return nil, err
	}
	held := heapInUse() - before

	var c checks
	c.rows(sys, nil)
	c.calls(sys, n, n)
	return Figures{
		rate("throughput", "objects/s", n, used.wall),
		cost("cpu", "us/object", micros(used.cpu), n),
		cost("allocs", "allocs/object", float64(used.allocs), n),
		less("heap_after", "MB", held/1e6),
	}, c.err()
}
