// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
)

// drawValue draws a value of a realistic size, often on a bound or next to one.
func drawValue(t *rapid.T) float64 {
	bound := metrics.Bound(rapid.IntRange(-300, 300).Draw(t, "bucket"))
	return rapid.SampledFrom([]float64{
		bound, math.Nextafter(bound, 0), math.Nextafter(bound, math.Inf(1)), bound * 1.03,
		0, metrics.HistogramZeroThreshold, math.Nextafter(metrics.HistogramZeroThreshold, 1),
		math.SmallestNonzeroFloat64,
	}).Draw(t, "value")
}

// histogramOf returns the one histogram of a name.
func histogramOf(t require.TestingT, registry *client.Registry, name string) *dto.Histogram {
	families, err := registry.Gather()
	require.NoError(t, err)
	i := slices.IndexFunc(families, func(family *dto.MetricFamily) bool { return family.GetName() == name })
	require.NotEqual(t, -1, i)
	return families[i].GetMetric()[0].GetHistogram()
}

// native returns the counts of the Prometheus library.
func native(t require.TestingT, values []float64) *dto.Histogram {
	theirs := client.NewHistogram(client.HistogramOpts{
		Name: "theirs", Help: "Theirs.", NativeHistogramBucketFactor: 1.1,
	})
	for _, v := range values {
		theirs.Observe(v)
	}
	var written dto.Metric
	require.NoError(t, theirs.Write(&written))
	return written.GetHistogram()
}

// populations returns the numbers of values in the buckets that are not empty.
func populations(h *dto.Histogram) map[int]int64 {
	counts := map[int]int64{}
	bucket, delta, count := 0, 0, int64(0)
	for _, span := range h.GetPositiveSpan() {
		bucket += int(span.GetOffset())
		for range span.GetLength() {
			count += h.GetPositiveDelta()[delta]
			if count != 0 {
				counts[bucket] = count
			}
			bucket, delta = bucket+1, delta+1
		}
	}
	return counts
}

// For all values, our buckets are those of the Prometheus library: on every bound, next to it, and
// about zero.
func TestNativeBucketsAreThoseOfPrometheus(t *testing.T) {
	check := func(t require.TestingT, registry *client.Registry, f *metrics.Figures, values []float64) {
		f.Rounds = fake.Histogram(values...)
		ours := histogramOf(t, registry, "statekeel_round_duration_seconds")
		theirs := native(t, values)
		require.Equal(t, theirs.GetSchema(), ours.GetSchema())
		require.Equal(t, theirs.GetZeroThreshold(), ours.GetZeroThreshold())
		require.Equal(t, theirs.GetZeroCount(), ours.GetZeroCount())
		require.Equal(t, theirs.GetSampleCount(), ours.GetSampleCount())
		require.InDelta(t, theirs.GetSampleSum(), ours.GetSampleSum(), 1e-12*theirs.GetSampleSum())
		require.Equal(t, populations(theirs), populations(ours))
		require.Empty(t, ours.GetNegativeSpan())
	}
	var f metrics.Figures
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "", (*fake.Source)(&f))

	var all []float64
	for bucket := -300; bucket <= 300; bucket++ {
		bound := metrics.Bound(bucket)
		all = append(all, math.Nextafter(bound, 0), bound, math.Nextafter(bound, math.Inf(1)))
	}
	check(t, registry, &f, all)
	rapid.Check(t, func(t *rapid.T) {
		check(t, registry, &f, rapid.SliceOfN(rapid.Custom(drawValue), 0, 30).Draw(t, "values"))
	})
}

func TestClassicBucketsAreExact(t *testing.T) {
	var f metrics.Figures
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "", (*fake.Source)(&f))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(drawValue), 0, 30).Draw(t, "values")
		f.Rounds = fake.Histogram(values...)
		f.CommitSizes = fake.Histogram(values...)
		for name, want := range map[string]int{"statekeel_round_duration_seconds": 16, "statekeel_commit_size": 9} {
			buckets := histogramOf(t, registry, name).GetBucket()
			require.Len(t, buckets, want)
			for _, bucket := range buckets {
				var count uint64
				for _, v := range values {
					if v <= bucket.GetUpperBound() {
						count++
					}
				}
				require.Equal(t, count, bucket.GetCumulativeCount(), "up to %g", bucket.GetUpperBound())
			}
		}
	})
}

// A text scrape has classic buckets only, from a microsecond to a quarter of an hour, and
// all values in the last.
func TestATextScrapeHasClassicBuckets(t *testing.T) {
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "", &fake.Source{
		CommitSizes: fake.Histogram(0, 1, 3, 4, 5, 1e6), Latency: fake.Histogram(0.25, 1e-9),
	})
	scraped := text(t, registry)
	for le, count := range map[string]int{"1": 2, "4": 4, "16": 5, "65536": 5, "+Inf": 6} {
		assert.Contains(t, scraped, `statekeel_commit_size_bucket{reconciler="agent.routing",le="`+le+`"} `+strconv.Itoa(count)+"\n")
	}
	for le, count := range map[string]int{"9.5367431640625e-07": 1, "0.0625": 1, "0.25": 2, "1024": 2, "+Inf": 2} {
		assert.Contains(t, scraped, `statekeel_write_to_applied_seconds_bucket{reconciler="agent.routing",le="`+le+`"} `+strconv.Itoa(count)+"\n")
	}
}

// Prometheus knows a native histogram by its zero threshold, and so an empty one too.
func TestAProtobufScrapeHasNativeHistograms(t *testing.T) {
	for name, tt := range map[string]struct {
		options []prometheus.Option
		classic int
	}{
		"with classic buckets":    {nil, 16},
		"without classic buckets": {[]prometheus.Option{prometheus.WithoutClassicBuckets()}, 0},
	} {
		m, registry := newMetrics(t, tt.options...)
		metrics.Attach(m, module, "", &fake.Source{Rounds: fake.Histogram(0, 1, 2, 2, 0.25)})
		families := scrape(t, registry)
		rounds := families["statekeel_round_duration_seconds"].GetMetric()[0].GetHistogram()
		assert.Equal(t, map[int]int64{-16: 1, 0: 1, 8: 2}, populations(rounds), name)
		assert.EqualValues(t, 1, rounds.GetZeroCount(), name)
		assert.EqualValues(t, 5, rounds.GetSampleCount(), name)
		assert.Len(t, rounds.GetBucket(), tt.classic, name)
		prunes := families["statekeel_prune_duration_seconds"].GetMetric()[0].GetHistogram()
		assert.Positive(t, prunes.GetZeroThreshold(), name)
		assert.EqualValues(t, metrics.HistogramSchema, prunes.GetSchema(), name)
		assert.Zero(t, prunes.GetSampleCount(), name)
	}
}
