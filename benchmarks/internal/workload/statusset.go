// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func statusSet(reconcilers int) Workload {
	w := Workload{
		Name: fmt.Sprintf("statusset-%d", reconcilers),
		About: fmt.Sprintf("100,000 rows inserted in transactions of 1000, each with a status set shared by %d "+
			"reconciler(s); from the first insert until each has reported all rows done.", reconcilers),
		Contenders: both(),
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{Reconcilers: reconcilers}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureStatusSet(ctx, env, sys, env.Rows(100_000))
			})
		},
	}
	if reconcilers == 1 {
		w.Contenders = append(w.Contenders, subject.Floor)
	}
	return w
}

func measureStatusSet(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	var rows []rowCalls
	for _, target := range sys.Targets() {
		rows = append(rows, counted(target, n))
	}
	used, held, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}

	// More than one call a row is work repeated because another reconciler wrote its status. That is
	// wasteful, not wrong, so it is a figure and not a check.
	var c checks
	var excess uint64
	operations := n * uint64(len(sys.Targets()))
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	for i, target := range sys.Targets() {
		updates := target.Updates.Load()
		c.atLeast(fmt.Sprintf("Update calls to target %d", i), updates, n)
		c.equal(fmt.Sprintf("Delete calls to target %d", i), target.Deletes.Load(), 0)
		excess += max(updates, n) - n
		c.add(rows[i].check(i, atLeast))
	}
	return append(loadFigures(used, held, n),
		less("wall", "s", used.wall.Seconds()),
		cost("cpu_each", "us/object and reconciler", micros(used.cpu), operations),
		less("excess_updates", "calls", float64(excess)),
	), c.err()
}
