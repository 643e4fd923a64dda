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
			" operations that do nothing; from the first insert until all are done.",
		Contenders: throughput(),
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(1_000_000)
			return env.with(ctx, subject.Options{Batch: batch}, func(sys subject.System) (Figures, error) {
				return measureLoad(ctx, env, sys, n)
			})
		},
	}
}

// measureLoad measures the insertion of n rows until they are done.
func measureLoad(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	used, held, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}
	return loadFigures(used, held, n), checkDone(sys, n)
}

// loadUntil inserts n rows, waits until all are of that kind, and returns the usage and the heap that the
// rows hold.
func loadUntil(ctx context.Context, env *Env, sys subject.System, n uint64, kind subject.Kind) (used usage, held float64, err error) {
	before := heapInUse()
	used, err = writeUntil(ctx, env, sys, n, writeBatch, kind)
	return used, heapInUse() - before, err
}

// writeUntil inserts n rows, size rows in a transaction, waits until all are of that kind, and returns the
// usage.
func writeUntil(ctx context.Context, env *Env, sys subject.System, n, size uint64, kind subject.Kind) (usage, error) {
	return env.observe(func(watch *stopwatch) error {
		if err := inBatches(0, n, size, sys.Insert); err != nil {
			return err
		}
		// A wait for the last row is cheap, and mostly that row is also the last to be reconciled. The walk
		// over all rows counts only if it was not.
		if err := sys.Await(ctx, n-1, kind); err != nil {
			return err
		}
		watch.read()
		stragglers, err := sys.AwaitAll(ctx, kind)
		if stragglers > 0 {
			watch.read()
		}
		return err
	})
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
