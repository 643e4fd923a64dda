// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func overheadOfStepper() Workload {
	return overhead("stepper", "Each operation walks through the five states of the way straight on, adds a result in "+
		"two of them and calls the target in one; the path goes into the journal.",
		subject.StatekeelStepper, subject.Statekeel)
}

func overheadOfStateful() Workload {
	return overhead("stateful", "Each operation compares the set that the row wants with nothing, applies the difference "+
		"and keeps what was applied as JSON in an annotation of the row, which is written with the status.",
		subject.StatekeelStateful, subject.StatekeelResources)
}

// overhead compares an adapter with bare operations on the same loop and rows.
func overhead(name, what, adapter, bare string) Workload {
	return Workload{
		Name: name,
		About: "300,000 new rows inserted in one transaction, reconciled with single operations that do nothing but what " +
			"the adapter does, and beside it by a bare Update; from before the insert until all are done. " + what,
		Contenders: []string{adapter, bare},
		Runs:       fewRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(300_000)
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureOverhead(ctx, env, sys, n)
			})
		},
	}
}

// measureOverhead is measureLoad with all rows committed before the loop sees the first, so that the time of
// the writer does not hide that of the loop.
func measureOverhead(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	before := heapInUse()
	used, err := env.measure(func() error {
		if err := sys.Insert(0, n); err != nil {
			return err
		}
		_, err := sys.AwaitAll(ctx, subject.Done)
		return err
	})
	if err != nil {
		return nil, err
	}
	held := heapInUse() - before
	figures := Figures{cost("time", "us/object", micros(used.wall), n)}
	return append(figures, loadFigures(used, held, n)...), checkDone(sys, n)
}
