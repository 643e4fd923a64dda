// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"encoding/json"
	"io"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// jsonFigure is one metric of one contender.
type jsonFigure struct {
	Workload  string    `json:"workload"`
	Contender string    `json:"contender"`
	Metric    string    `json:"metric"`
	Unit      string    `json:"unit"`
	Better    string    `json:"better"`
	Runs      int       `json:"runs"`
	Min       float64   `json:"min"`
	Median    float64   `json:"median"`
	Max       float64   `json:"max"`
	AtLeast   bool      `json:"at_least,omitempty"`
	Values    []float64 `json:"values"`
}

// jsonRatio is one metric of a contender, divided by that of another, run by run.
type jsonRatio struct {
	Workload string  `json:"workload"`
	RatioOf  string  `json:"ratio_of"`
	RatioTo  string  `json:"ratio_to"`
	Metric   string  `json:"metric"`
	Min      float64 `json:"min"`
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
}

// JSON writes the result of one workload for programs, one object a line: first a figure for each
// metric and contender, then a ratio for each metric and pair of contenders.
func JSON(w io.Writer, r *series.Result) error {
	encoder := json.NewEncoder(w)
	for _, f := range figuresOf(r) {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	for _, ratio := range ratiosOf(r) {
		if err := encoder.Encode(ratio); err != nil {
			return err
		}
	}
	return nil
}

// figuresOf returns the figures that were measured, by metric and then by contender.
func figuresOf(r *series.Result) []jsonFigure {
	var figures []jsonFigure
	for _, m := range r.Metrics {
		for _, name := range r.Contenders {
			s := r.Figure(name, m.Name)
			if s.Runs == 0 {
				continue
			}
			figures = append(figures, jsonFigure{
				Workload: r.Workload.Name, Contender: name, Metric: m.Name, Unit: m.Unit, Better: better(m.Better),
				Runs: s.Runs, Min: s.Min, Median: s.Median, Max: s.Max, AtLeast: s.AtLeast, Values: r.Values(name, m.Name),
			})
		}
	}
	return figures
}

// ratiosOf returns the ratios of all pairs of contenders. A pair has none if the divisor was 0 in
// some run.
func ratiosOf(r *series.Result) []jsonRatio {
	var ratios []jsonRatio
	for _, m := range r.Metrics {
		for i, of := range r.Contenders {
			for _, to := range r.Contenders[i+1:] {
				s := r.Ratio(of, to, m.Name)
				if s.Runs == 0 {
					continue
				}
				ratios = append(ratios, jsonRatio{r.Workload.Name, of, to, m.Name, s.Min, s.Median, s.Max})
			}
		}
	}
	return ratios
}

// better names the direction in which a metric improves; "" if it has none.
func better(b workload.Better) string {
	switch b {
	case workload.Less:
		return "less"
	case workload.More:
		return "more"
	default:
		return ""
	}
}
