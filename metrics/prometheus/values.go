// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"math"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/statekeel/statekeel/metrics"
)

// The bounds of classic buckets, as exponents of two. They are bounds of our own buckets, too, so
// the counts are exact. From a microsecond to 17 minutes:
var seconds = []int{-20, -18, -16, -14, -12, -10, -8, -6, -4, -2, 0, 2, 4, 6, 8, 10}

// From 1 to 65,536:
var sizes = []int{0, 2, 4, 6, 8, 10, 12, 14, 16}

// perOctave is the number of our buckets for one power of two.
const perOctave = 1 << metrics.HistogramSchema

// counter returns a counter that was 0 at the given time.
func counter(desc *client.Desc, value float64, since time.Time, labels ...string) client.Metric {
	m, err := client.NewConstMetricWithCreatedTimestamp(desc, client.CounterValue, value, since, labels...)
	return orInvalid(desc, m, err)
}

func gauge(desc *client.Desc, value float64, labels ...string) client.Metric {
	m, err := client.NewConstMetric(desc, client.GaugeValue, value, labels...)
	return orInvalid(desc, m, err)
}

// orInvalid returns m, or for an error a metric that fails the scrape with it.
func orInvalid(desc *client.Desc, m client.Metric, err error) client.Metric {
	if err != nil {
		return client.NewInvalidMetric(desc, err)
	}
	return m
}

// histogram returns a native histogram that was empty at the given time. If bounds are given it
// also has classic buckets.
func (fs *families) histogram(desc *client.Desc, h *metrics.Histogram, bounds []int, since time.Time, labels ...string) client.Metric {
	native := make(map[int]int64, len(h.Buckets))
	for i, n := range h.Buckets {
		if n > 0 {
			native[h.First+i] = int64(n)
		}
	}
	m, err := client.NewConstNativeHistogram(desc, h.Count, h.Sum, native, nil, h.Zero,
		metrics.HistogramSchema, metrics.HistogramZeroThreshold, since, labels...)
	if err != nil || !fs.classic {
		return orInvalid(desc, m, err)
	}
	return &withClassic{Metric: m, buckets: classicBuckets(h, bounds)}
}

// withClassic is a native histogram that also has classic buckets.
type withClassic struct {
	client.Metric
	buckets []*dto.Bucket
}

// Write is called by the registry, once.
func (w *withClassic) Write(out *dto.Metric) error {
	if err := w.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = w.buckets
	return nil
}

// classicBuckets returns the number of values up to each bound. The bucket of infinity is the
// count, and is left out.
func classicBuckets(h *metrics.Histogram, bounds []int) []*dto.Bucket {
	buckets := make([]*dto.Bucket, 0, len(bounds))
	below, next := h.Zero, 0
	for _, exponent := range bounds {
		for next < len(h.Buckets) && h.First+next <= exponent*perOctave {
			below += h.Buckets[next]
			next++
		}
		count, bound := below, math.Ldexp(1, exponent)
		buckets = append(buckets, &dto.Bucket{CumulativeCount: &count, UpperBound: &bound})
	}
	return buckets
}
