// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// refreshAge is the refresh interval of refresh-batch: no row is due twice in a run.
const refreshAge = time.Hour

// leastStorm is the smallest number of rows, also in a quick series: a contender that marks a few rows at a
// time needs several calls for them.
const leastStorm = 1000

// refreshCase is a part of refresh-batch.
type refreshCase struct {
	part string
	rows uint64
	cost time.Duration // of a call, whatever its size
}

// refreshCases returns the parts in the order in which they are run.
func refreshCases() []refreshCase {
	return []refreshCase{
		{"1k_5ms", 1000, 5 * time.Millisecond},
		{"1k_100ms", 1000, 100 * time.Millisecond},
		{"100k_5ms", 100_000, 5 * time.Millisecond},
	}
}

func refreshBatch() Workload {
	cases := map[string]refreshCase{}
	var parts []string
	for _, c := range refreshCases() {
		cases[c.part] = c
		parts = append(parts, c.part)
	}
	return Workload{
		Name: "refresh-batch",
		About: "1000 and 100,000 rows that are done and are all due for a refresh at once, with no limit on the rate, and a " +
			"batch operation that takes 5 or 100 ms a call whatever its size: the number of calls, and the time " +
			"since the rows were due, until each row was refreshed once. What has not finished after 20 s is given up: " +
			"its calls and time are lower bounds, and unfinished_... is the share of the rows that were not refreshed.",
		Contenders: both(),
		Runs:       fewRuns,
		Headline:   "calls_1k_5ms",
		Parts:      parts,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return measureRefreshBatch(ctx, env, cases[env.Part])
		},
	}
}

func measureRefreshBatch(ctx context.Context, env *Env, c refreshCase) (Figures, error) {
	n := max(env.Rows(c.rows), leastStorm)
	calls := newFixedCost(c.cost)
	var updates *tally
	due := time.Now().Add(env.Refresh / 2)
	o := subject.Options{
		Batch:        true,
		RefreshEvery: refreshAge,
		DoneRows:     n,
		DoneSince:    due.Add(-refreshAge),
		// On a slow machine the rows are due before the contender has started.
		Prepare: func(target *subject.Target) {
			updates = tallied(target, n, nothing)
			target.SetBatchRule(calls.pay)
		},
	}
	return env.with(ctx, o, func(sys subject.System) (Figures, error) {
		return measureStorm(ctx, env, sys, storm{due: due, rows: n, calls: calls, updates: updates})
	})
}

// fixedCost is the duration of each call of a target, whatever its size.
type fixedCost struct {
	cost   time.Duration
	waived atomic.Bool
}

func newFixedCost(cost time.Duration) *fixedCost { return &fixedCost{cost: cost} }

// pay sleeps for the duration of a call.
func (f *fixedCost) pay() {
	if f.cost > 0 && !f.waived.Load() {
		time.Sleep(f.cost)
	}
}

// waive makes every later call take no time.
func (f *fixedCost) waive() { f.waived.Store(true) }

// storm is a set of rows that are due for a refresh at the same time.
type storm struct {
	due     time.Time
	rows    uint64
	calls   *fixedCost
	updates *tally
}

func measureStorm(ctx context.Context, env *Env, sys subject.System, s storm) (Figures, error) {
	var (
		target    = sys.Targets()[0]
		refreshed = s.updates.ended.Reached(s.rows)
		limit     = 2 * env.Cap
		took      time.Duration
		finished  bool
	)
	_, err := env.measure(func() (err error) {
		finished, err = within(ctx, refreshed, time.Until(s.due)+limit)
		took = time.Since(s.due)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A run that stopped waiting is completed without cost, so that it can be checked too.
	calls, left := target.Batches.Load(), s.rows-min(s.rows, target.Updates.Load())
	s.calls.waive()
	if err := wait(ctx, refreshed, "every row to be refreshed"); err != nil {
		return nil, err
	}
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return nil, err
	}

	var c checks
	c.worked(sys, s.updates, s.rows, 1)
	c.atLeast("calls", target.Batches.Load(), 1)
	if finished {
		c.atLeast("us since the rows were due, for the calls that there were",
			uint64(took.Microseconds()), calls*uint64(s.calls.cost.Microseconds()))
	}
	return Figures{
		{Metric: "calls_" + env.Part, Unit: "calls", Better: Less, Value: float64(calls), AtLeast: !finished},
		{Metric: "time_" + env.Part, Unit: "ms", Better: Less, Value: millis(took), AtLeast: !finished},
		less("unfinished_"+env.Part, "% of rows", 100*float64(left)/float64(s.rows)),
	}, c.err()
}
