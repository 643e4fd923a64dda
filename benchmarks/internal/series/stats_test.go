// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

func TestSummaryIsMinMedianMax(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{nil, Summary{}},
		{[]float64{3}, Summary{Runs: 1, Min: 3, Median: 3, Max: 3}},
		{[]float64{3, 1}, Summary{Runs: 2, Min: 1, Median: 2, Max: 3}},
		{[]float64{9, 1, 5}, Summary{Runs: 3, Min: 1, Median: 5, Max: 9}},
		{[]float64{4, 1, 3, 2}, Summary{Runs: 4, Min: 1, Median: 2.5, Max: 4}},
	} {
		assert.Equal(t, c.want, summarize(c.values), "%v", c.values)
	}
	values := []float64{2, 1}
	summarize(values)
	assert.Equal(t, []float64{2, 1}, values, "the order of the repetitions is kept")
}

func TestRatiosAreTakenWithinARepetition(t *testing.T) {
	assert.Equal(t, []float64{2, 0.5, 1}, ratios([]float64{2, 4, 3}, []float64{1, 8, 3}))
	assert.Equal(t, []float64{2}, ratios([]float64{2, 4}, []float64{1}), "a repetition of only one has no ratio")
	assert.Nil(t, ratios([]float64{2, 4}, []float64{1, 0}), "one divisor of 0 leaves no ratio at all")
	assert.Equal(t, []float64{0}, ratios([]float64{0}, []float64{5}))
}

func figures(value float64) workload.Figures {
	return workload.Figures{
		{Metric: "throughput", Unit: "objects/s", Better: workload.More, Value: value},
		{Metric: "cpu", Unit: "us/object", Better: workload.Less, Value: 1 / value},
	}
}

func TestResultKeepsRepetitionsInPairs(t *testing.T) {
	r := newResult(workload.Workload{Name: "w"}, []string{"a", "b"})
	for _, pair := range [][2]float64{{10, 5}, {40, 10}, {9, 3}} {
		r.add("a", figures(pair[0]))
		r.add("b", figures(pair[1]))
	}
	assert.Equal(t, []Metric{{"throughput", "objects/s", workload.More}, {"cpu", "us/object", workload.Less}}, r.Metrics)
	assert.Equal(t, Summary{Runs: 3, Min: 9, Median: 10, Max: 40}, r.Figure("a", "throughput"))
	// The medians' own ratio would be 2, those of the extremes 4 and 3.
	assert.Equal(t, Summary{Runs: 3, Min: 2, Median: 3, Max: 4}, r.Ratio("a", "b", "throughput"))
	assert.Zero(t, r.Figure("c", "throughput"))
	assert.Zero(t, r.Ratio("a", "c", "throughput"))
	assert.Zero(t, r.Ratio("a", "b", "latency"))
}

func TestResultMarksBounds(t *testing.T) {
	r := newResult(workload.Workload{Name: "w"}, []string{"a", "b"})
	r.add("a", workload.Figures{{Metric: "wait", Unit: "ms", Value: 1}})
	r.add("b", workload.Figures{{Metric: "wait", Unit: "ms", Value: 100, AtLeast: true}})
	assert.False(t, r.Figure("a", "wait").AtLeast)
	assert.True(t, r.Figure("b", "wait").AtLeast)
	assert.True(t, r.Ratio("a", "b", "wait").AtLeast)
}

func TestBestFollowsTheDirectionOfTheMetric(t *testing.T) {
	r := newResult(workload.Workload{Name: "w"}, []string{"a", "b"})
	r.add("a", figures(10))
	r.add("b", figures(20))
	throughput, known := r.Metric("throughput")
	assert.True(t, known)
	cpu, _ := r.Metric("cpu")
	assert.Equal(t, "b", r.Best(throughput, "a", "b"))
	assert.Equal(t, "b", r.Best(cpu, "a", "b"), "half the cost")
	assert.Equal(t, "a", r.Best(throughput, "absent", "a"))
	assert.Empty(t, r.Best(throughput, "absent"))
	_, known = r.Metric("latency")
	assert.False(t, known)
}
