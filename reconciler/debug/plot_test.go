// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// plotted returns the paths of the plot, and the texts of the page's figures.
func plotted(t *testing.T, f *fake.Controller) (paths map[string]string, texts map[string]string) {
	live := decode[struct {
		Cells map[string]struct{ Text string }
		Paths map[string]string
	}](t, serve(t, nil, f).json("show?reconciler=agent/v4&format=live"))
	texts = map[string]string{}
	for id, c := range live.Cells {
		texts[id] = c.Text
	}
	return live.Paths, texts
}

// at returns a sample of so many seconds before the epoch.
func at(seconds float64, failing int) inspect.Sample {
	return inspect.Sample{At: epoch.Add(-time.Duration(seconds * float64(time.Second))), Failing: failing}
}

func TestPlotEndsWithTheLatestSample(t *testing.T) {
	f := newFake("v4")
	f.Samples = []inspect.Sample{at(2.5, 0), at(1.5, 10), at(0.5, 5)}
	paths, texts := plotted(t, f)
	assert.Equal(t, "M598.0 39.0L599.0 39.0L599.0 1.0L600.0 1.0L600.0 20.0L600.0 20.0", paths["line-failing"])
	assert.Equal(t, "M598.0 40.0L598.0 39.0L599.0 39.0L599.0 1.0L600.0 1.0L600.0 20.0L600.0 20.0L600.0 40.0Z", paths["area-failing"])
	assert.Equal(t, "5", texts["now-failing"])
	assert.Equal(t, "10", texts["most-failing"])
	assert.Equal(t, "0", texts["most-blocked"])
}

func TestPlotMovesLeftOverTime(t *testing.T) {
	f := newFake("v4")
	f.Samples = []inspect.Sample{at(60, 0), at(59, 3)}
	before, _ := plotted(t, f)
	f.Shown.At = epoch.Add(time.Second)
	after, _ := plotted(t, f)
	assert.True(t, strings.HasPrefix(before["line-failing"], "M540.0 "), before["line-failing"])
	assert.True(t, strings.HasPrefix(after["line-failing"], "M539.0 "), after["line-failing"])
}

func TestPlotHasGapsWithoutSamples(t *testing.T) {
	f := newFake("v4")
	f.Samples = []inspect.Sample{at(9, 1), at(8, 1), at(1, 1), at(0, 1)}
	paths, _ := plotted(t, f)
	assert.Equal(t, "M591.0 1.0L592.0 1.0M599.0 1.0L600.0 1.0", paths["line-failing"])
}

func TestPlotHasTheLastTenMinutes(t *testing.T) {
	f := newFake("v4")
	f.Samples = []inspect.Sample{at(601, 100), at(600, 3), at(599, 2), at(0, 1)}
	paths, texts := plotted(t, f)
	assert.Equal(t, "M0.0 1.0L1.0 1.0L1.0 13.7L1.0 13.7M600.0 26.3L600.0 26.3", paths["line-failing"])
	assert.Equal(t, "3", texts["most-failing"])
}

func TestPlotWithoutSamplesIsEmpty(t *testing.T) {
	paths, texts := plotted(t, newFake("v4"))
	assert.Empty(t, paths["line-failing"])
	assert.Equal(t, "–", texts["now-failing"])
}
