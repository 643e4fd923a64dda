// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// newManaged returns a Managed, and a registry that checks everything it can.
func newManaged(t *testing.T, options ...prometheus.Option) (*prometheus.Managed, *client.Registry) {
	t.Helper()
	m, err := prometheus.NewManaged(options...)
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	return m, registry
}

// tellManaged calls every method of metrics.
func tellManaged(m managed.Metrics, kind string) {
	m.FirstReconciled(kind, time.Second)
	m.FirstReady(kind, 2*time.Second)
	m.Deleted(kind, 4*time.Second)
	m.Drift(kind, 8*time.Second)
	for n, is := range []managed.State{
		{Known: true}, {Known: true, Exists: true}, {Known: true, Exists: true, Synced: true}, {Known: true, Exists: true, Ready: true, Synced: true},
	} {
		for range n + 1 {
			m.Observed(kind, managed.State{}, is)
		}
	}
}

func TestAScrapeShowsAllFiguresOfManagedResources(t *testing.T) {
	m, registry := newManaged(t)
	assert.Empty(t, text(t, registry))
	tellManaged(m, "Bucket")
	scraped := text(t, registry)
	for name, value := range map[string]int{
		"known": 10, "exists": 9, "ready": 4, "synced": 7,
		"first_time_to_reconcile_seconds_sum": 1, "first_time_to_readiness_seconds_sum": 2,
		"deletion_seconds_sum": 4, "drift_seconds_sum": 8, "drift_seconds_count": 1,
	} {
		assert.Contains(t, scraped, fmt.Sprintf("statekeel_managed_resource_%s{kind=\"Bucket\"} %d\n", name, value))
	}
	assert.Contains(t, scraped, `statekeel_managed_resource_deletion_seconds_bucket{kind="Bucket",le="4"} 1`+"\n")
	assert.Contains(t, scraped, `statekeel_managed_resource_deletion_seconds_bucket{kind="Bucket",le="1"} 0`+"\n")
}

func TestTheFiguresOfManagedResourcesCountSinceTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newManaged(t)
		time.Sleep(time.Hour)
		began := time.Now()
		tellManaged(m, "Bucket")
		time.Sleep(time.Hour)
		tellManaged(m, "Bucket")
		drift := protobuf(t, registry)["statekeel_managed_resource_drift_seconds"].GetMetric()[0].GetHistogram()
		assert.True(t, began.Equal(drift.GetCreatedTimestamp().AsTime()))
		assert.Equal(t, map[int]int64{24: 2}, populations(drift))
	})
}

func TestTheLinterOfPrometheusFindsNothingInManagedResources(t *testing.T) {
	for _, options := range [][]prometheus.Option{nil, {prometheus.WithoutClassicBuckets()}} {
		m, registry := newManaged(t, options...)
		tellManaged(m, "Bucket")
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
}

func TestBothCollectorsShareARegistry(t *testing.T) {
	_, registry := newMetrics(t)
	m, err := prometheus.NewManaged()
	require.NoError(t, err)
	require.NoError(t, registry.Register(m))
}

// Series depend on kinds only, not on the number of objects or their fate.
func TestSeriesOfManagedResourcesAreOfKindsOnly(t *testing.T) {
	m, registry := newManaged(t, prometheus.WithNamespace("crossplane"), prometheus.WithConstLabels(map[string]string{"node": "n1"}))
	count := func() int {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		return n
	}
	tellManaged(m, "Bucket")
	require.Equal(t, 8, count())
	for range 1000 {
		tellManaged(m, "Bucket")
	}
	require.Equal(t, 8, count())
	assert.Contains(t, text(t, registry), `crossplane_managed_resource_ready{kind="Bucket",node="n1"} 4004`+"\n")
}

func TestHostileKindsDoNotBreakAScrape(t *testing.T) {
	m, registry := newManaged(t)
	for _, kind := range []string{"a\"} 1\nb", "c\xff", "c\xfe"} {
		tellManaged(m, kind)
	}
	scraped := text(t, registry)
	assert.Contains(t, scraped, "\nstatekeel_managed_resource_known{kind=\"a\\\"} 1\\nb\"} 10\n")
	assert.Contains(t, scraped, "\nstatekeel_managed_resource_known{kind=\"\\\"c\\\\xff\\\"\"} 10\n")
	assert.Contains(t, scraped, "\nstatekeel_managed_resource_known{kind=\"\\\"c\\\\xfe\\\"\"} 10\n")
}

func TestNewManagedSaysAllThatIsWrong(t *testing.T) {
	m, err := prometheus.NewManaged(prometheus.WithNamespace("my-agent"), prometheus.WithConstLabels(map[string]string{"kind": "x", "fine": ""}))
	assert.Nil(t, m)
	assert.EqualError(t, err, `namespace "my-agent": must be letters, digits and underscores, no digit first
constant label "kind": the metrics have a label of that name`)
}

func TestScrapesRunWhileManagedResourcesAreToldOf(t *testing.T) {
	m, registry := newManaged(t)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for range 20 {
				tellManaged(m, fmt.Sprint(n%2))
				_, err := registry.Gather()
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP statekeel_managed_resource_known Objects that have had a pass and are not gone.
# TYPE statekeel_managed_resource_known gauge
statekeel_managed_resource_known{kind="0"} 400
statekeel_managed_resource_known{kind="1"} 400
`), "statekeel_managed_resource_known"))
}
