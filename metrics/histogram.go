// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"math"
	"slices"
)

// HistogramSchema is how fine the buckets of a [Histogram] are, as Prometheus counts it:
// each bound is the one before times 2^(2^-schema), here 2^(1/8), which is 9 % more.
const HistogramSchema = 3

// perOctave is how many buckets there are from one power of two to the next.
const perOctave = 1 << HistogramSchema

// Histogram counts values by their size: durations in seconds, or numbers of things. The
// buckets are those of the native histograms of Prometheus with [HistogramSchema]: bucket
// i has the values above Bound(i-1) and up to Bound(i). Only those between the smallest and
// the largest value there was take memory. The zero value is empty and ready for use. Not
// safe for concurrent use.
type Histogram struct {
	// Count and Sum are of all values, Zero is how many of them were not positive.
	Count, Zero uint64
	Sum         float64
	// Buckets[i] counts the values of bucket First+i.
	First   int
	Buckets []uint64
}

// fractions are the mantissas, as the bits of a float64 has them, of the bounds from 1
// up to before 2.
var fractions = func() (f [perOctave]uint64) {
	for i := range f {
		f[i] = math.Float64bits(math.Exp2(float64(i)/perOctave)) & mantissa
	}
	return f
}()

const (
	mantissaBits = 52
	mantissa     = 1<<mantissaBits - 1
	exponentBias = 1023
)

// Bound returns the upper bound of a bucket.
func Bound(bucket int) float64 { return math.Exp2(float64(bucket) / perOctave) }

// bucketOf returns the bucket of a positive value.
func bucketOf(v float64) int {
	bits := math.Float64bits(v)
	m := bits & mantissa
	octave := int(bits>>mantissaBits) - exponentBias
	low, high := 0, perOctave
	for low < high {
		if mid := (low + high) / 2; m > fractions[mid] {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return octave*perOctave + low
}

// Observe counts a value. One that is not a number, or infinite, is passed over.
func (h *Histogram) Observe(v float64) { h.ObserveMany(v, 1) }

// ObserveMany counts a value n times.
func (h *Histogram) ObserveMany(v float64, n uint64) {
	if n == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	h.Count += n
	h.Sum += v * float64(n)
	if v <= 0 {
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

// Quantile returns an upper bound, at most a bucket off, of the smallest value that the
// fraction q of all values, between 0 and 1, does not exceed; 0 if there are none.
func (h *Histogram) Quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(h.Count)))
	seen := h.Zero
	if seen >= rank {
		return 0
	}
	for i, n := range h.Buckets {
		if seen += n; seen >= rank {
			return Bound(h.First + i)
		}
	}
	return 0
}
