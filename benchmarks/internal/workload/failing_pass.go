// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partFailing    = "failing"
	partSucceeding = "succeeding"
)

// farAway is a backoff longer than any run.
const farAway = time.Hour

func failingPass() Workload {
	return Workload{
		Name: "failing-pass",
		About: "One pass over 300,000 rows that all fail, with the retry an hour away, and in another process the " +
			"same pass over rows that succeed: how many times longer it takes, and the memory a failing row " +
			"holds beyond a row that is done.",
		Contenders: bothLedgers(),
		Runs:       fewRuns,
		Headline:   "slowdown",
		Parts:      []string{partFailing, partSucceeding},
		Combine:    combinePasses,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{RetryMin: farAway, RetryMax: farAway}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measurePass(ctx, env, sys, env.Rows(300_000))
			})
		},
	}
}

func measurePass(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	outcome := subject.Done
	if env.Part == partFailing {
		outcome = subject.Failed
		sys.Targets()[0].SetRule(func(uint64) error { return errDown })
	}
	used, held, err := loadUntil(ctx, env, sys, n, outcome)
	if err != nil {
		return nil, err
	}

	var c checks
	c.rows(sys, map[subject.Kind]uint64{outcome: n})
	c.calls(sys, n, 0)
	return Figures{
		less("pass_"+env.Part, "s", used.wall.Seconds()),
		cost("cpu_"+env.Part, "us/object", micros(used.cpu), n),
		cost("heap_"+env.Part, "B/object", held, n),
	}, c.err()
}

func combinePasses(parts []Figures) Figures {
	failing, succeeding := parts[0], parts[1]
	figures := Figures{
		less("slowdown", "x", failing.Find("pass_failing")/succeeding.Find("pass_succeeding")),
		less("heap_beyond_row", "B/object", failing.Find("heap_failing")-succeeding.Find("heap_succeeding")),
	}
	figures = append(figures, failing...)
	return append(figures, succeeding...)
}
