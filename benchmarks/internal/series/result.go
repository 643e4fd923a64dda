// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"slices"

	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// Metric is a quantity that a workload measures of each contender.
type Metric struct {
	Name, Unit string
	Better     workload.Better
}

// Result holds the figures of all runs of one workload.
type Result struct {
	// Workload is the workload that was run.
	Workload workload.Workload
	// Contenders are those that took part, in the order of their turns.
	Contenders []string
	// Metrics are those that were measured, in the order in which they are shown.
	Metrics []Metric

	values  map[key][]float64 // by repetition
	atLeast map[key]bool
}

type key struct{ contender, metric string }

func newResult(w workload.Workload, contenders []string) *Result {
	return &Result{
		Workload:   w,
		Contenders: contenders,
		values:     map[key][]float64{},
		atLeast:    map[key]bool{},
	}
}

// add adds the figures of a contender's next repetition.
func (r *Result) add(contender string, figures workload.Figures) {
	for _, f := range figures {
		m := Metric{Name: f.Metric, Unit: f.Unit, Better: f.Better}
		if !slices.Contains(r.Metrics, m) {
			r.Metrics = append(r.Metrics, m)
		}
		k := key{contender, f.Metric}
		r.values[k] = append(r.values[k], f.Value)
		r.atLeast[k] = r.atLeast[k] || f.AtLeast
	}
}

// Figure returns the summary of a contender's metric; Runs is 0 if it was not measured.
func (r *Result) Figure(contender, metric string) Summary {
	k := key{contender, metric}
	s := summarize(r.values[k])
	s.AtLeast = r.atLeast[k]
	return s
}

// Values returns a contender's metric of every run, by repetition; nil if it was not measured.
func (r *Result) Values(contender, metric string) []float64 {
	return slices.Clone(r.values[key{contender, metric}])
}

// Ratio returns the summary of a metric's ratio of one contender to another, taken within each repetition.
// Runs is 0 when one of them was not measured or a divisor was 0. AtLeast is set when a figure on either
// side is a lower bound.
func (r *Result) Ratio(of, to, metric string) Summary {
	a, b := key{of, metric}, key{to, metric}
	s := summarize(ratios(r.values[a], r.values[b]))
	s.AtLeast = r.atLeast[a] || r.atLeast[b]
	return s
}

// Metric returns the metric of that name; false if no contender was measured for it.
func (r *Result) Metric(name string) (Metric, bool) {
	for _, m := range r.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// Has reports whether the contender took part.
func (r *Result) Has(contender string) bool { return slices.Contains(r.Contenders, contender) }

// Best returns the contender with the best median of a metric, of those given that took part; "" if none
// did. Of equals it returns the first.
func (r *Result) Best(metric Metric, contenders ...string) string {
	var (
		best  string
		value float64
	)
	for _, name := range contenders {
		s := r.Figure(name, metric.Name)
		if s.Runs == 0 {
			continue
		}
		better := s.Median < value
		if metric.Better == workload.More {
			better = s.Median > value
		}
		if best == "" || better {
			best, value = name, s.Median
		}
	}
	return best
}
