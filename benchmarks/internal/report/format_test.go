// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
)

func TestNumbersHaveThreeDigitsBelow1000(t *testing.T) {
	for want, v := range map[string]float64{
		"0":         0,
		"0.5":       0.5,
		"0.852":     0.85234,
		"0.0345":    0.03451,
		"0.00012":   0.00012,
		"1.00":      0.9999,
		"1.20":      1.2,
		"9.99":      9.99,
		"10.0":      9.999,
		"42.1":      42.06,
		"100":       99.96,
		"999":       999.4,
		"1,000":     999.6,
		"712,345":   712345.4,
		"1,090,000": 1.09e6,
		"-1,234":    -1234,
		"-0.25":     -0.25,
	} {
		assert.Equal(t, want, number(v), "%v", v)
	}
	assert.Equal(t, "0", number(1e-9))
}

func TestSpreadIsEmptyWithoutADifference(t *testing.T) {
	assert.Equal(t, "(1.00 … 3.00)", spread(series.Summary{Runs: 3, Min: 1, Median: 2, Max: 3}))
	assert.Empty(t, spread(series.Summary{Runs: 1, Min: 1, Median: 1, Max: 1}))
	assert.Empty(t, spread(series.Summary{Runs: 3, Min: 19.201, Median: 19.202, Max: 19.203}))
	assert.Empty(t, spread(series.Summary{}))
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	assert.Equal(t, "  one two\n  three\n", wrapped("one two three", 9, "  "))
	assert.Equal(t, "  extraordinary\n  word\n", wrapped("extraordinary word", 9, "  "))
}
