// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// recorder is an Execute that takes no time and records its runs.
type recorder struct{ runs []Run }

func (r *recorder) execute(_ context.Context, run Run) (workload.Figures, error) {
	r.runs = append(r.runs, run)
	return figures(float64(len(r.runs))), nil
}

func (r *recorder) turns() []string {
	var turns []string
	for _, run := range r.runs {
		turns = append(turns, run.String())
	}
	return turns
}

func keep(*Result) error { return nil }

func TestContendersTakeTurns(t *testing.T) {
	var rec recorder
	plan := Plan{
		Workloads: []workload.Workload{
			{Name: "w", Contenders: []string{"a", "b", "c"}, Runs: 2},
			{Name: "v", Contenders: []string{"c", "a"}, Runs: 1, Parts: []string{"x", "y"}},
		},
		Contenders: []string{"a", "b", "c"},
		Sizes:      workload.Tiny(),
		Execute:    rec.execute,
	}
	var results []*Result
	require.NoError(t, plan.Run(t.Context(), func(r *Result) error {
		results = append(results, r)
		return nil
	}))
	assert.Equal(t, []string{
		"w by a", "w by b", "w by c", "w by a", "w by b", "w by c",
		"v by c (x)", "v by c (y)", "v by a (x)", "v by a (y)",
	}, rec.turns())
	for _, run := range rec.runs {
		assert.Equal(t, workload.Tiny(), run.Sizes)
		assert.Empty(t, run.Profile)
	}
	require.Len(t, results, 2)
	assert.Equal(t, []string{"c", "a"}, results[1].Contenders)
	assert.Equal(t, 2, results[0].Figure("a", "throughput").Runs)
}

func TestOnlySelectedContendersTakePart(t *testing.T) {
	var rec recorder
	plan := Plan{
		Workloads: []workload.Workload{
			{Name: "w", Contenders: []string{"a", "b"}, Runs: 1},
			{Name: "v", Contenders: []string{"a"}, Runs: 1},
		},
		Contenders: []string{"b"},
		Runs:       3,
		Execute:    rec.execute,
	}
	require.NoError(t, plan.Run(t.Context(), keep))
	assert.Equal(t, []string{"w by b", "w by b", "w by b"}, rec.turns(), "as often as the plan says")
}

func TestOnlyTheFirstRepetitionIsProfiled(t *testing.T) {
	var rec recorder
	plan := Plan{
		Workloads:  []workload.Workload{{Name: "w", Contenders: []string{"a"}, Runs: 2, Parts: []string{"x", "y"}}},
		Contenders: []string{"a"},
		Profile:    func(run Run) string { return run.Part + ".prof" },
		Execute:    rec.execute,
	}
	require.NoError(t, plan.Run(t.Context(), keep))
	var profiles []string
	for _, run := range rec.runs {
		profiles = append(profiles, run.Profile)
	}
	assert.Equal(t, []string{"x.prof", "y.prof", "", ""}, profiles)
}

func TestFailedRunEndsTheSeriesAndIsNamed(t *testing.T) {
	cause := errors.New("check failed: rows")
	var executed int
	plan := Plan{
		Workloads:  []workload.Workload{{Name: "w", Contenders: []string{"a"}, Runs: 3, Parts: []string{"x"}}},
		Contenders: []string{"a"},
		Execute: func(context.Context, Run) (workload.Figures, error) {
			if executed++; executed == 2 {
				return nil, cause
			}
			return figures(1), nil
		},
	}
	err := plan.Run(t.Context(), func(*Result) error {
		assert.Fail(t, "a series that failed has no result")
		return nil
	})
	assert.ErrorIs(t, err, cause)
	assert.EqualError(t, err, "w by a (x), run 2 of 3: check failed: rows")
	assert.Equal(t, 2, executed)
}

func TestPartsAreCombinedPerRepetition(t *testing.T) {
	plan := Plan{
		Workloads: []workload.Workload{{
			Name: "w", Contenders: []string{"a"}, Runs: 2, Parts: []string{"x", "y"},
			Combine: func(parts []workload.Figures) workload.Figures {
				sum := parts[0].Find("throughput") + parts[1].Find("throughput")
				return workload.Figures{{Metric: "sum", Unit: "x", Value: sum}}
			},
		}},
		Contenders: []string{"a"},
		Execute:    new(recorder).execute, // 1, 2, 3, 4
	}
	require.NoError(t, plan.Run(t.Context(), func(r *Result) error {
		assert.Equal(t, Summary{Runs: 2, Min: 3, Median: 5, Max: 7}, r.Figure("a", "sum"))
		return nil
	}))
}

func TestProgressIsReportedBeforeAndAfterEachRun(t *testing.T) {
	var told []string
	plan := Plan{
		Workloads:  []workload.Workload{{Name: "w", Contenders: []string{"a", "b"}, Runs: 1}},
		Contenders: []string{"a", "b"},
		Execute:    new(recorder).execute,
		Progress: func(run Run, repetition, of int, _ time.Duration, done bool) {
			assert.Equal(t, 1, repetition)
			assert.Equal(t, 1, of)
			if done {
				told = append(told, run.Contender+" done")
			} else {
				told = append(told, run.Contender)
			}
		},
	}
	require.NoError(t, plan.Run(t.Context(), keep))
	assert.True(t, slices.Equal([]string{"a", "a done", "b", "b done"}, told), told)
}
