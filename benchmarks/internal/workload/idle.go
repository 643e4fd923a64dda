// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func idle() Workload {
	return Workload{
		Name: "idle",
		About: "1,000,000 rows that are done, default options, nothing to do for 5 s. Free memory was given back " +
			"to the system before, so that the runtime does not do that meanwhile. A millisecond is about what the " +
			"measurement itself costs: figures below that say nothing to tell contenders apart.",
		Contenders: both(),
		Runs:       fewRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureIdle(ctx, env, sys, env.Rows(1_000_000))
			})
		},
	}
}

func measureIdle(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	if err := loadDone(ctx, sys, n); err != nil {
		return nil, err
	}
	returnMemory()
	if err := pause(ctx, env.Settle); err != nil {
		return nil, err
	}
	used, err := env.measure(func() error { return pause(ctx, env.Window) })
	if err != nil {
		return nil, err
	}
	return Figures{
		less("cpu", "ms", millis(used.cpu)),
		less("switches", "context switches", float64(used.switches)),
		less("updates", "calls", float64(sys.Targets()[0].Updates.Load()-n)),
	}, checkDone(sys, n)
}
