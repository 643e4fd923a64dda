// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func noop(kind string, batch bool) Workload {
	return Workload{
		Name: "noop-" + kind,
		About: "1,000,000 rows inserted in transactions of 1000, reconciled meanwhile with " + kind +
			" operations that do nothing; from the first insert to the last row done.",
		Contenders: throughput(),
		Runs:       manyRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(1_000_000)
			return env.with(ctx, subject.Options{Batch: batch}, func(sys subject.System) (Figures, error) {
				return measureLoad(ctx, env, sys, n)
			})
		},
	}
}

// measureLoad measures the insertion of n rows and their way to done.
func measureLoad(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	before := heapInUse()
	used, err := env.measure(func() error { return loadUntil(ctx, sys, n, subject.Done) })
	if err != nil {
		return nil, err
	}
	held := heapInUse() - before
	return loadFigures(used, held, n), checkDone(sys, n)
}

// loadUntil inserts n rows and waits for the last one. Rows are reconciled in the order of
// their insertion, so the others are done by then; the checks after it make sure of that.
func loadUntil(ctx context.Context, sys subject.System, n uint64, kind subject.Kind) error {
	if err := load(sys, 0, n); err != nil {
		return err
	}
	return sys.Await(ctx, n-1, kind)
}

func loadFigures(used usage, held float64, n uint64) Figures {
	return Figures{
		rate("throughput", "objects/s", n, used.wall),
		cost("cpu", "us/object", micros(used.cpu), n),
		cost("allocs", "allocs/object", float64(used.allocs), n),
		cost("alloc_bytes", "B/object", float64(used.bytes), n),
		cost("heap", "B/object", held, n),
	}
}
