// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"encoding/json"
	"io"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
)

type jsonFigure struct {
	Workload  string  `json:"workload"`
	Contender string  `json:"contender"`
	Metric    string  `json:"metric"`
	Unit      string  `json:"unit"`
	Runs      int     `json:"runs"`
	Min       float64 `json:"min"`
	Median    float64 `json:"median"`
	Max       float64 `json:"max"`
}

type jsonRatio struct {
	Workload string  `json:"workload"`
	RatioOf  string  `json:"ratio_of"`
	RatioTo  string  `json:"ratio_to"`
	Metric   string  `json:"metric"`
	Min      float64 `json:"min"`
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
}

// JSON writes the result of one workload for programs, one object a line: first a figure
// for each metric and contender, then a ratio for each metric and pair of contenders. A
// ratio that does not exist, since its divisor was 0 in some run, has no line.
func JSON(w io.Writer, r *series.Result) error {
	encoder := json.NewEncoder(w)
	for _, m := range r.Metrics {
		for _, name := range r.Contenders {
			s := r.Figure(name, m.Name)
			if s.Runs == 0 {
				continue
			}
			err := encoder.Encode(jsonFigure{
				r.Workload.Name, name, m.Name, m.Unit, s.Runs, s.Min, s.Median, s.Max,
			})
			if err != nil {
				return err
			}
		}
	}
	for _, m := range r.Metrics {
		for i, of := range r.Contenders {
			for _, to := range r.Contenders[i+1:] {
				s := r.Ratio(of, to, m.Name)
				if s.Runs == 0 {
					continue
				}
				err := encoder.Encode(jsonRatio{
					r.Workload.Name, of, to, m.Name, s.Min, s.Median, s.Max,
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
