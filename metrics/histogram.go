// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"math"
	"slices"
)

// HistogramSchema is the resolution of the buckets of a [Histogram], as defined by Prometheus: each
// bound is the previous one times 2^(2^-schema), here 2^(1/8), about 9 % more.
const HistogramSchema = 3

// HistogramZeroThreshold is the largest value that a [Histogram] counts as zero: 2^-128, the default
// of the Prometheus libraries.
const HistogramZeroThreshold = 0x1p-128

// perOctave is the number of buckets from one power of two to the next.
const perOctave = 1 << HistogramSchema

// Histogram counts values by size: durations in seconds, or numbers of things. Its buckets are
// those of Prometheus native histograms with [HistogramSchema]: bucket i has the values above
// Bound(i-1) and up to Bound(i). Memory is used only between the smallest and the largest bucket
// with values. The zero value is empty and ready for use. It is not safe for concurrent use.
type Histogram struct {
	// Count and Sum include all values; Zero counts the values up to HistogramZeroThreshold. Sum
	// never decreases and is never infinite.
	Count, Zero uint64
	Sum         float64
	// Buckets[i] counts the values of bucket First+i.
	First   int
	Buckets []uint64
}

// fractions are the bounds from 1/2 to below 1. They are the numbers that Prometheus uses, some of
// which are not the nearest to their power: a value on a bound must be in the same bucket here as
// in Prometheus.
var fractions = [perOctave]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
	0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
}

// Bound returns the upper bound of a bucket: 1 for bucket 0, a power of two for each
// multiple of 8. It is never infinite.
func Bound(bucket int) float64 {
	octave := bucket >> HistogramSchema
	return min(math.Ldexp(fractions[bucket-octave*perOctave], octave+1), math.MaxFloat64)
}

// bucketOf returns the bucket of a finite value above HistogramZeroThreshold.
func bucketOf(v float64) int {
	fraction, exponent := math.Frexp(v)
	if fraction == fractions[0] {
		return (exponent - 1) * perOctave
	}
	// Each eighth of the range from 1/2 to 1 contains one bound, except the last, which contains
	// none: eighth i has the bound of bucket i+1.
	bucket := 1 + int((fraction-0.5)*(2*perOctave))
	if bucket < perOctave && fraction > fractions[bucket] {
		bucket++
	}
	return (exponent-1)*perOctave + bucket
}

// Observe counts a value. Negative values, such as ages after a clock was set, count as zero. NaN
// and infinite values are ignored.
func (h *Histogram) Observe(v float64) { h.ObserveMany(v, 1) }

// ObserveMany counts a value n times.
func (h *Histogram) ObserveMany(v float64, n uint64) {
	if n == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	// The built-in min and max check for more than is needed here, and this is called for each
	// operation.
	if v < 0 {
		v = 0
	}
	h.Count += n
	if h.Sum += v * float64(n); h.Sum > math.MaxFloat64 {
		h.Sum = math.MaxFloat64
	}
	if v <= HistogramZeroThreshold {
		h.Zero += n
		return
	}
	bucket := bucketOf(v)
	if i := bucket - h.First; uint(i) < uint(len(h.Buckets)) {
		h.Buckets[i] += n
		return
	}
	h.reach(bucket)
	h.Buckets[bucket-h.First] += n
}

// reach makes room for a bucket.
func (h *Histogram) reach(bucket int) {
	switch {
	case len(h.Buckets) == 0:
		h.First, h.Buckets = bucket, append(h.Buckets, 0)
	case bucket < h.First:
		h.Buckets = slices.Insert(h.Buckets, 0, make([]uint64, h.First-bucket)...)
		h.First = bucket
	default:
		h.Buckets = append(h.Buckets, make([]uint64, bucket-h.First-len(h.Buckets)+1)...)
	}
}

// Clone returns a copy that shares nothing with h.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.Buckets = slices.Clone(h.Buckets)
	return c
}

// Quantile returns an upper bound of the q-quantile: at most one bucket above the smallest value
// that a fraction q of all values does not exceed. It is 0 if there are no values. For q <= 0 it is
// the bound of the smallest value, for q >= 1 that of the largest.
func (h *Histogram) Quantile(q float64) float64 {
	rank := uint64(1)
	if q > 0 {
		rank = max(rank, uint64(math.Ceil(min(q, 1)*float64(h.Count))))
	}
	seen := h.Zero
	if seen >= rank || len(h.Buckets) == 0 {
		return 0
	}
	for i, n := range h.Buckets {
		if seen += n; seen >= rank {
			return Bound(h.First + i)
		}
	}
	return Bound(h.First + len(h.Buckets) - 1)
}
