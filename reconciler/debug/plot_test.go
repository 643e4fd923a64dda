// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// A second is a unit from the right end, at 600. The largest number is at the top, at 1, and zero at 39.
func TestPlotHasTheSamplesOfTheLastTenMinutes(t *testing.T) {
	type sample struct {
		seconds float64 // before the page
		failing int
	}
	for _, c := range []struct {
		samples         []sample
		line, now, most string
	}{
		{nil, "", "–", "–"},
		{
			[]sample{{2.5, 0}, {1.5, 10}, {0.5, 5}},
			"M598.0 39.0L599.0 39.0L599.0 1.0L600.0 1.0L600.0 20.0L600.0 20.0", "5", "10",
		},
		// It moves left as time goes by.
		{[]sample{{60, 0}, {59, 3}}, "M540.0 39.0L541.0 39.0L541.0 1.0L541.0 1.0", "3", "3"},
		{[]sample{{61, 0}, {60, 3}}, "M539.0 39.0L540.0 39.0L540.0 1.0L540.0 1.0", "3", "3"},
		// There are gaps without samples.
		{[]sample{{9, 1}, {8, 1}, {1, 1}, {0, 1}}, "M591.0 1.0L592.0 1.0M599.0 1.0L600.0 1.0", "1", "1"},
		{
			[]sample{{601, 100}, {600, 3}, {599, 2}, {0, 1}},
			"M0.0 1.0L1.0 1.0L1.0 13.7L1.0 13.7M600.0 26.3L600.0 26.3", "1", "3",
		},
	} {
		f := newFake("v4")
		for _, s := range c.samples {
			at := epoch.Add(-time.Duration(s.seconds * float64(time.Second)))
			f.Samples = append(f.Samples, inspect.Sample{At: at, Failing: s.failing})
		}
		live := decode[struct {
			Cells map[string]struct{ Text string }
			Paths map[string]string
		}](t, serve(t, nil, f).json("show?reconciler=agent/v4&format=live"))
		assert.Equal(t, c.line, live.Paths["line-failing"])
		assert.Equal(t, c.now, live.Cells["now-failing"].Text)
		assert.Equal(t, c.most, live.Cells["most-failing"].Text)
	}
}
