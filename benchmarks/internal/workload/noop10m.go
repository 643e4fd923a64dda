// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"slices"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	part10m = "10m"
	part1m  = "1m"
)

// AmongFewer is the suffix of a metric of noop-10m that was measured with a tenth of the rows.
const AmongFewer = "_1m"

func noop10m() Workload {
	return Workload{
		Name: "noop-10m",
		About: "As noop-single, with 10,000,000 rows, and in another process (..._1m) with 1,000,000: how much more an " +
			"object costs among ten times as many. Statekeel with the ledger beside the table takes part, too.",
		Contenders: append(bothLedgers(), subject.Floor),
		Runs:       fewRuns,
		Headline:   "throughput",
		Parts:      []string{part10m, part1m},
		Combine:    combineNumbers,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(10_000_000)
			if env.Part == part1m {
				n = env.Rows(1_000_000)
			}
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureNumber(ctx, env, sys, n)
			})
		},
	}
}

// measureNumber is measureLoad with a check that each row was reconciled once. The counters cost the same
// for all contenders.
func measureNumber(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	tally := tallied(sys.Targets()[0], n, nothing)
	used, held, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}
	var c checks
	c.worked(sys, tally, n, 1)
	return loadFigures(used, held, n), c.err()
}

func combineNumbers(parts []Figures) Figures {
	many, few := parts[0], slices.Clone(parts[1])
	growth := less("cpu_growth", "x", many.Find("cpu")/few.Find("cpu"))
	for i := range few {
		few[i].Metric += AmongFewer
	}
	return slices.Concat(many, Figures{growth}, few)
}
