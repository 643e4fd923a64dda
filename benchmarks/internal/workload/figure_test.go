// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestQuantileIsNearestRank(t *testing.T) {
	for _, c := range []struct {
		samples []time.Duration
		q       float64
		want    time.Duration
	}{
		{[]time.Duration{7}, 0.5, 7},
		{[]time.Duration{7}, 1, 7},
		{[]time.Duration{4, 1, 3, 2}, 0.5, 2},
		{[]time.Duration{5, 4, 1, 3, 2}, 0.5, 3},
		{[]time.Duration{5, 4, 1, 3, 2}, 0.99, 5},
		{[]time.Duration{5, 4, 1, 3, 2}, 1, 5},
		{[]time.Duration{5, 4, 1, 3, 2}, 0, 1},
	} {
		assert.Equal(t, c.want, quantile(c.samples, c.q), "%v of %v", c.q, c.samples)
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	assert.EqualValues(t, 50, quantile(hundred, 0.50))
	assert.EqualValues(t, 99, quantile(hundred, 0.99))
	assert.EqualValues(t, 100, quantile(hundred, 1))
}

func TestCostDividesATotal(t *testing.T) {
	assert.Equal(t, Figure{"a", "objects/s", More, 500, false}, rate("a", "objects/s", 1000, 2*time.Second))
	assert.Equal(t, Figure{"b", "us/object", Less, 2.5, false}, cost("b", "us/object", micros(5*time.Millisecond), 2000))
	assert.Equal(t, 1.5, millis(1500*time.Microsecond))
}

func TestSizesScaleDownToTheMinimum(t *testing.T) {
	assert.EqualValues(t, 1_000_000, Full().Rows(1_000_000))
	assert.EqualValues(t, 100_000, Quick().Rows(1_000_000))
	assert.EqualValues(t, 1000, Tiny().Rows(1_000_000))
	assert.EqualValues(t, minimum, Tiny().Rows(10_000))
	assert.EqualValues(t, 5, Tiny().Rows(5), "never more than the full size")
	assert.EqualValues(t, 200, Quick().Inserts(2000))
}

func TestFailingPassComparesWithTheSucceedingOne(t *testing.T) {
	figures := combinePasses([]Figures{
		{less("pass_failing", "s", 3), less("heap_failing", "B/object", 500)},
		{less("pass_succeeding", "s", 2), less("heap_succeeding", "B/object", 350)},
	})
	assert.Equal(t, 1.5, figures.Find("slowdown"))
	assert.Equal(t, 150.0, figures.Find("heap_beyond_row"))
	assert.Len(t, figures, 6)
	assert.Zero(t, figures.Find("no such metric"))
}

func TestTenMillionRowsAreComparedWithOneMillion(t *testing.T) {
	parts := []Figures{
		{less("cpu", "us/object", 3), less("allocs", "allocs/object", 18)},
		{less("cpu", "us/object", 2), less("allocs", "allocs/object", 14)},
	}
	assert.Equal(t, Figures{
		less("cpu", "us/object", 3), less("allocs", "allocs/object", 18),
		less("cpu_growth", "x", 1.5),
		less("cpu_1m", "us/object", 2), less("allocs_1m", "allocs/object", 14),
	}, combineNumbers(parts))
	assert.Equal(t, "cpu", parts[1][0].Metric, "the parts are not changed")
}

func TestHeldOperationsAreComparedWithNone(t *testing.T) {
	assert.Equal(t, Figures{
		less("p50_growth_stuck", "x", 3), less("p50_growth_slow", "x", 2),
		less("p50_none", "us", 10), less("p50_stuck", "us", 30), less("p50_slow", "us", 20),
	}, combineHeld([]Figures{
		{less("p50_none", "us", 10)}, {less("p50_stuck", "us", 30)}, {less("p50_slow", "us", 20)},
	}))
}

func TestBlockedRowIsComparedWithDoneRow(t *testing.T) {
	figures := combineBlocked([]Figures{
		{less("memory_blocked", "B/object", 900)},
		{less("memory_done", "B/object", 400)},
	})
	assert.Equal(t, 500.0, figures.Find("memory_beyond_row"))
	assert.Len(t, figures, 3)
}
