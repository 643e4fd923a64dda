// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import "slices"

// Summary holds the statistics of several runs. It is all zero for no runs.
type Summary struct {
	Runs             int
	Min, Median, Max float64
	// AtLeast is set when one of the values is a lower bound.
	AtLeast bool
}

// summarize returns the summary of values; the median of an even number of values is the
// mean of the middle two.
func summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Summary{
		Runs:   n,
		Min:    sorted[0],
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Max:    sorted[n-1],
	}
}

// ratios returns of[i]/to[i] for each repetition i that both have. If any divisor is 0 it returns nil: the
// ratios of the other repetitions would be a selection.
func ratios(of, to []float64) []float64 {
	n := min(len(of), len(to))
	result := make([]float64, 0, n)
	for i := range n {
		if to[i] == 0 {
			return nil
		}
		result = append(result, of[i]/to[i])
	}
	return result
}
