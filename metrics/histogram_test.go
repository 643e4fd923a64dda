// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
)

// drawValue draws a value of a realistic size, often on a bound or next to one.
func drawValue(t *rapid.T) float64 {
	bound := metrics.Bound(rapid.IntRange(-400, 400).Draw(t, "bucket"))
	return rapid.SampledFrom([]float64{
		bound, math.Nextafter(bound, 0), math.Nextafter(bound, math.Inf(1)), bound * 1.03,
		0, -bound, metrics.HistogramZeroThreshold,
		math.Nextafter(metrics.HistogramZeroThreshold, 1), math.SmallestNonzeroFloat64,
		math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1),
	}).Draw(t, "value")
}

// counted returns the value that a histogram counts v as, and whether it counts it.
func counted(v float64) (float64, bool) {
	return max(v, 0), !math.IsNaN(v) && !math.IsInf(v, 0)
}

func TestHistogramCountsNumbers(t *testing.T) {
	grown := make([]uint64, 25)
	grown[0], grown[8], grown[16], grown[24] = 1, 1, 1, 2
	for _, c := range []struct {
		values []float64
		want   metrics.Histogram
	}{
		{[]float64{math.NaN(), math.Inf(1), math.Inf(-1)}, metrics.Histogram{}},
		// What is not positive counts as zero, and tiny values do.
		{[]float64{0, math.Copysign(0, -1), -3, -math.MaxFloat64}, metrics.Histogram{Count: 4, Zero: 4}},
		{
			[]float64{metrics.HistogramZeroThreshold},
			metrics.Histogram{Count: 1, Zero: 1, Sum: metrics.HistogramZeroThreshold},
		},
		// Buckets grow at both ends.
		{[]float64{1, 2, 0.5, 4, 4}, metrics.Histogram{Count: 5, Sum: 11.5, First: -8, Buckets: grown}},
		// The sum stays finite.
		{
			[]float64{math.MaxFloat64, math.MaxFloat64},
			metrics.Histogram{Count: 2, Sum: math.MaxFloat64, First: 8192, Buckets: []uint64{2}},
		},
	} {
		assert.Equal(t, c.want, fake.Histogram(c.values...), "%v", c.values)
	}
}

func TestEachValueIsInItsBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h metrics.Histogram
		var count, zero uint64
		buckets := map[int]uint64{}
		for range rapid.IntRange(0, 20).Draw(t, "values") {
			v, n := drawValue(t), rapid.Uint64Range(0, 3).Draw(t, "times")
			h.ObserveMany(v, n)
			v, ok := counted(v)
			switch {
			case n == 0 || !ok:
				continue
			case v <= metrics.HistogramZeroThreshold:
				zero += n
			default:
				bucket := int(math.Floor(math.Log2(v)*8)) - 2
				for metrics.Bound(bucket) < v {
					bucket++
				}
				buckets[bucket] += n
			}
			count += n
		}
		require.Equal(t, count, h.Count)
		require.Equal(t, zero, h.Zero)
		for i, n := range h.Buckets {
			require.Equal(t, buckets[h.First+i], n, "bucket %d", h.First+i)
			delete(buckets, h.First+i)
		}
		require.Empty(t, buckets, "buckets that the histogram does not have")
		if len(h.Buckets) > 0 {
			assert.NotZero(t, h.Buckets[0], "memory for what was never seen")
			assert.NotZero(t, h.Buckets[len(h.Buckets)-1], "memory for what was never seen")
		}
	})
}

func TestObserveManyIsObserveManyTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var once, each metrics.Histogram
		v := drawValue(t)
		if v == math.MaxFloat64 {
			t.Skip("the sum overflows")
		}
		once.ObserveMany(v, 4)
		for range 4 {
			each.Observe(v)
		}
		assert.InDelta(t, each.Sum, once.Sum, each.Sum*1e-12)
		each.Sum = once.Sum
		assert.Equal(t, each, once)
	})
}

func TestACloneSharesNothing(t *testing.T) {
	var h metrics.Histogram
	h.Observe(1)
	h.Observe(4)
	clone, before := h.Clone(), h.Clone()
	h.Observe(1)
	h.Observe(0.25)
	assert.Equal(t, before, clone)
	after := h.Clone()
	clone.Observe(4)
	clone.Observe(16)
	assert.Equal(t, after, h)
}

// The quantile is the bound of the bucket that contains the value at that place of the sorted list.
func TestQuantileIsAtMostABucketAboveTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h metrics.Histogram
		var values []float64
		for range rapid.IntRange(1, 30).Draw(t, "values") {
			v := drawValue(t)
			h.Observe(v)
			if v, ok := counted(v); ok {
				values = append(values, v)
			}
		}
		q := rapid.SampledFrom([]float64{
			math.NaN(), math.Inf(-1), -1, 0, 0.01, 0.5, 0.9, 0.99, 1, 2, math.Inf(1),
		}).Draw(t, "q")
		got := h.Quantile(q)
		if len(values) == 0 {
			assert.Zero(t, got)
			return
		}
		slices.Sort(values)
		place := 0
		if q > 0 {
			place = max(int(math.Ceil(min(q, 1)*float64(len(values))))-1, 0)
		}
		exact := values[place]
		if exact <= metrics.HistogramZeroThreshold {
			assert.Zero(t, got)
			return
		}
		assert.GreaterOrEqual(t, got, exact)
		assert.LessOrEqual(t, got/exact, 1.0906, "quantile %g of %v", q, values)
	})
}

func TestObserveAllocatesNothingOnceTheBucketIsThere(t *testing.T) {
	var h metrics.Histogram
	h.Observe(0.001)
	h.Observe(10)
	assert.Zero(t, testing.AllocsPerRun(100, func() { h.Observe(0.5) }))
}
