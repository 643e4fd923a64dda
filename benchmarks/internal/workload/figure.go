// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"slices"
	"time"
)

// Better is the direction in which a metric improves.
type Better int8

// The directions of a metric.
const (
	// Neither is a metric that describes a run and has no better direction.
	Neither Better = iota
	// Less is a metric that is better when smaller: a cost or a time.
	Less
	// More is a metric that is better when larger: a rate.
	More
)

// Figure is one measurement of one run.
type Figure struct {
	// Metric names what was measured, the same for all contenders of a workload.
	Metric string `json:"metric"`
	// Unit is the unit of Value: "objects/s", "us/object", ...
	Unit string `json:"unit"`
	// Better is the direction in which the metric improves.
	Better Better `json:"better"`
	// Value is never NaN and never infinite.
	Value float64 `json:"value"`
	// AtLeast marks Value as a lower bound: the run stopped waiting there.
	AtLeast bool `json:"at_least,omitempty"`
}

// Figures are the measurements of one run, in the order in which they are shown.
type Figures []Figure

// Find returns the value of a metric; 0 when there is no such metric.
func (f Figures) Find(metric string) float64 {
	for _, figure := range f {
		if figure.Metric == metric {
			return figure.Value
		}
	}
	return 0
}

func rate(metric, unit string, events uint64, over time.Duration) Figure {
	return Figure{Metric: metric, Unit: unit, Better: More, Value: float64(events) / over.Seconds()}
}

// cost is a total divided by a number of objects, attempts or other units.
func cost(metric, unit string, total float64, over uint64) Figure {
	return Figure{Metric: metric, Unit: unit, Better: Less, Value: total / float64(over)}
}

func less(metric, unit string, value float64) Figure {
	return Figure{Metric: metric, Unit: unit, Better: Less, Value: value}
}

func info(metric, unit string, value float64) Figure {
	return Figure{Metric: metric, Unit: unit, Value: value}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the nearest-rank quantile: the smallest sample that at least a share q of the samples
// does not exceed; q = 1 is the maximum. It sorts the samples, of which there must be at least one.
func quantile(samples []time.Duration, q float64) time.Duration {
	slices.Sort(samples)
	rank := int(q * float64(len(samples)))
	if float64(rank) == q*float64(len(samples)) {
		rank--
	}
	return samples[max(rank, 0)]
}
