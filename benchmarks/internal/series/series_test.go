// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"context"
	"errors"
	"fmt"
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

// run runs the plan with a recorder and the contenders a, b and c, unless it has others.
func run(t *testing.T, plan Plan) (rec *recorder, results []*Result) {
	t.Helper()
	rec = &recorder{}
	plan.Execute = rec.execute
	if plan.Contenders == nil {
		plan.Contenders = []string{"a", "b", "c"}
	}
	require.NoError(t, plan.Run(t.Context(), func(r *Result) error {
		results = append(results, r)
		return nil
	}))
	return rec, results
}

func TestContendersTakeTurns(t *testing.T) {
	workloads := []workload.Workload{
		{Name: "w", Contenders: []string{"a", "b", "c"}, Runs: 2},
		{Name: "v", Contenders: []string{"c", "a"}, Runs: 1, Parts: []string{"x", "y"}},
	}
	rec, results := run(t, Plan{Workloads: workloads, Sizes: workload.Tiny()})
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

	rec, _ = run(t, Plan{Workloads: workloads, Contenders: []string{"b"}, Runs: 3})
	assert.Equal(t, []string{"w by b", "w by b", "w by b"}, rec.turns(), "only those selected, as often as the plan says")
}

func TestOnlyTheFirstRepetitionIsProfiled(t *testing.T) {
	rec, _ := run(t, Plan{
		Workloads: []workload.Workload{{Name: "w", Contenders: []string{"a"}, Runs: 2, Parts: []string{"x", "y"}}},
		Profile:   func(run Run) string { return run.Part + ".prof" },
	})
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
	_, results := run(t, Plan{Workloads: []workload.Workload{{
		Name: "w", Contenders: []string{"a"}, Runs: 2, Parts: []string{"x", "y"},
		Combine: func(parts []workload.Figures) workload.Figures {
			sum := parts[0].Find("throughput") + parts[1].Find("throughput") // of 1 and 2, then of 3 and 4
			return workload.Figures{{Metric: "sum", Unit: "x", Value: sum}}
		},
	}}})
	require.Len(t, results, 1)
	assert.Equal(t, Summary{Runs: 2, Min: 3, Median: 5, Max: 7}, results[0].Figure("a", "sum"))
}

func TestProgressIsReportedBeforeAndAfterEachRun(t *testing.T) {
	var told []string
	run(t, Plan{
		Workloads: []workload.Workload{{Name: "w", Contenders: []string{"a", "b"}, Runs: 1}},
		Progress: func(run Run, repetition, of int, _ time.Duration, done bool) {
			told = append(told, fmt.Sprint(run.Contender, " ", repetition, of, done))
		},
	})
	assert.Equal(t, []string{"a 1 1 false", "a 1 1 true", "b 1 1 false", "b 1 1 true"}, told)
}
