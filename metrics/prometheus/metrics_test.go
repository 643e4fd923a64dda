// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
)

func TestAScrapeShowsAllFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := distinct()
		f.OldestUnapplied = time.Now().Add(-2500 * time.Millisecond)
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "v6", (*figures)(&f))

		scraped := map[string]bool{}
		for line := range strings.Lines(text(t, registry)) {
			scraped[strings.TrimSpace(line)] = true
		}
		const of = `{reconciler="agent.routing/v6"}`
		for operation, counts := range map[string][]int{
			"update": {101, 102, 103, 104, 105}, "delete": {111, 112, 113, 114, 115},
		} {
			for i, result := range []string{"done", "failed", "terminal", "blocked", "requeued"} {
				assert.Contains(t, scraped, fmt.Sprintf(
					`statekeel_operations_total{operation=%q,reconciler="agent.routing/v6",result=%q} %d`,
					operation, result, counts[i]))
			}
		}
		for _, line := range []string{
			`statekeel_operation_duration_seconds_sum{operation="update",reconciler="agent.routing/v6"} 1`,
			`statekeel_operation_duration_seconds_sum{operation="delete",reconciler="agent.routing/v6"} 2`,
			`statekeel_retries_total` + of + ` 121`,
			`statekeel_released_total` + of + ` 122`,
			`statekeel_refreshes_total` + of + ` 123`,
			`statekeel_write_to_applied_seconds_sum` + of + ` 4`,
			`statekeel_panics_total` + of + ` 131`,
			`statekeel_timeouts_total` + of + ` 132`,
			`statekeel_breaker_openings_total` + of + ` 134`,
			`statekeel_round_duration_seconds_sum` + of + ` 8`,
			`statekeel_commit_size_sum` + of + ` 16`,
			`statekeel_commit_duration_seconds_sum` + of + ` 32`,
			`statekeel_commit_lost_total` + of + ` 141`,
			`statekeel_commit_conflicts_total` + of + ` 142`,
			`statekeel_prune_duration_seconds_sum` + of + ` 192`,
			`statekeel_prune_duration_seconds_count` + of + ` 2`,
			`statekeel_prune_errors_total` + of + ` 151`,
			`statekeel_sweep_listed_total` + of + ` 152`,
			`statekeel_swept_total` + of + ` 153`,
			`statekeel_unset_total` + of + ` 161`,
			`statekeel_objects` + of + ` 171`,
			`statekeel_objects_in_state{reconciler="agent.routing/v6",state="retry"} 172`,
			`statekeel_objects_in_state{reconciler="agent.routing/v6",state="in flight"} 179`,
			`statekeel_unseen_changes` + of + ` 173`,
			`statekeel_failing_objects` + of + ` 174`,
			`statekeel_blocked_objects` + of + ` 175`,
			`statekeel_breakers_open` + of + ` 176`,
			`statekeel_stuck_operations` + of + ` 177`,
			`statekeel_paused` + of + ` 1`,
			`statekeel_oldest_unapplied_seconds` + of + ` 2.5`,
		} {
			assert.Contains(t, scraped, line)
		}
	})
}

// A new figure must be exported.
func TestNoFigureIsLeftOut(t *testing.T) {
	var f metrics.Figures
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "", (*figures)(&f))
	before := text(t, registry)
	given := reflect.ValueOf(distinct())
	for i := range given.NumField() {
		name := given.Type().Field(i).Name
		f = metrics.Figures{}
		if name == "OldestUnapplied" {
			f.OldestUnapplied = time.Now().Add(-time.Hour)
		} else {
			require.False(t, given.Field(i).IsZero(), "give %s a value in distinct", name)
			reflect.ValueOf(&f).Elem().Field(i).Set(given.Field(i))
		}
		assert.NotEqual(t, before, text(t, registry), name)
	}
}

// The age is that at the scrape, not at the last round.
func TestTheOldestGrowsOlderBetweenScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "", &figures{OldestUnapplied: time.Now()})
		for _, age := range []string{"0", "90", "180"} {
			assert.Contains(t, text(t, registry), `statekeel_oldest_unapplied_seconds{reconciler="agent.routing"} `+age+"\n")
			time.Sleep(90 * time.Second)
		}
	})
}

// Names, units, types and help texts are as promtool wants them, with native histograms
// alone and with classic buckets.
func TestTheLinterOfPrometheusFindsNothing(t *testing.T) {
	f := distinct()
	for _, options := range [][]prometheus.Option{nil, {prometheus.WithoutClassicBuckets()}} {
		m, registry := newMetrics(t, options...)
		metrics.Attach(m, module, "v6", (*figures)(&f))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
}

func TestWithoutReconcilersAScrapeIsEmpty(t *testing.T) {
	_, registry := newMetrics(t)
	assert.Empty(t, text(t, registry))
}

func TestAttachReplacesASourceOfTheSameName(t *testing.T) {
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "v4", &figures{Objects: 1})
	metrics.Attach(m, module, "v6", &figures{Objects: 2})
	metrics.Attach(m, module, "v4", &figures{Objects: 3})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP statekeel_objects Rows of the table.
# TYPE statekeel_objects gauge
statekeel_objects{reconciler="agent.routing/v4"} 3
statekeel_objects{reconciler="agent.routing/v6"} 2
`), "statekeel_objects"))
}

// A reconciler that stops late must not remove its successor.
func TestOneThatDetachesLeavesOnlyItself(t *testing.T) {
	m, registry := newMetrics(t)
	former := metrics.Attach(m, module, "v4", &figures{Objects: 1})
	other := metrics.Attach(m, module, "v6", &figures{Objects: 2})
	latter := metrics.Attach(m, module, "v4", &figures{Objects: 3})
	former()
	other()
	assert.Contains(t, text(t, registry), `statekeel_objects{reconciler="agent.routing/v4"} 3`+"\n")
	assert.NotContains(t, text(t, registry), "v6")
	latter()
	assert.Empty(t, text(t, registry))
}

// Counters have a start time, so that a new reconciler under an old name is not mistaken for the
// old one, even if it has counted more by the next scrape.
func TestCountersCountSinceTheReconcilerWasAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "", &figures{Retries: 1})
		time.Sleep(time.Hour)
		restarted := time.Now()
		metrics.Attach(m, module, "", &figures{Retries: 2})
		time.Sleep(time.Hour)
		scraped := protobuf(t, registry)
		counter := scraped["statekeel_retries_total"].GetMetric()[0].GetCounter()
		assert.Equal(t, 2.0, counter.GetValue())
		assert.True(t, restarted.Equal(counter.GetCreatedTimestamp().AsTime()))
		rounds := scraped["statekeel_round_duration_seconds"].GetMetric()[0].GetHistogram()
		assert.True(t, restarted.Equal(rounds.GetCreatedTimestamp().AsTime()))
	})
}

func TestHostileNamesDoNotBreakAScrape(t *testing.T) {
	m, registry := newMetrics(t)
	metrics.Attach(m, cell.FullModuleID{"a\"} 1\nb\xff"}, "<img>", &figures{Objects: 7})
	assert.Contains(t, text(t, registry), "\nstatekeel_objects{reconciler=\"\\\"a\\\\\\\"} 1\\\\nb\\\\xff/<img>\\\"\"} 7\n")
}

func TestNamesThatAreNotUTF8DoNotCollide(t *testing.T) {
	m, registry := newMetrics(t)
	names := []string{"a\xff", "a\xfe", "a\uFFFD", `"agent.routing/a\xff"`, `"agent.routing/a\\xff"`, ""}
	for _, name := range names {
		metrics.Attach(m, module, name, &figures{})
	}
	metrics.Attach(m, nil, "a\xff", &figures{})
	metrics.Attach(m, cell.FullModuleID{`"/a\xff"`}, "", &figures{})
	count, err := testutil.GatherAndCount(registry, "statekeel_objects")
	require.NoError(t, err)
	assert.Equal(t, len(names)+2, count)
}

// Calls of the Metrics methods are ignored, and cost neither time nor memory.
func TestBetweenScrapesNothingIsKept(t *testing.T) {
	m, registry := newMetrics(t)
	assert.Equal(t, metrics.Bind(metrics.Discard, module, "v6"), metrics.Bind(m, module, "v6"))
	own := metrics.NewExpVar().Bind(module, "v6")
	assert.Same(t, own, metrics.Bind(metrics.Join(m, bound{metrics.Discard, own}), module, "v6"))

	m.ReconciliationDuration(module, "", metrics.OpUpdate, time.Second)
	m.ReconciliationErrors(module, "", 1, 1)
	m.PruneDuration(module, "", time.Second)
	m.PruneError(module, "", nil)
	assert.Empty(t, text(t, registry))
}

// bound is a Metrics with a given handle.
type bound struct {
	metrics.Metrics
	handle metrics.Handle
}

func (b bound) Bind(cell.FullModuleID, string) metrics.Handle { return b.handle }

func TestScrapesRunWhileReconcilersAttach(t *testing.T) {
	m, registry := newMetrics(t)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for range 20 {
				metrics.Attach(m, module, fmt.Sprint(n), &figures{Objects: n})
				_, err := registry.Gather()
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	count, err := testutil.GatherAndCount(registry, "statekeel_objects")
	require.NoError(t, err)
	assert.Equal(t, 4, count)
}

func TestNamespaceAndConstLabelsAreOnEveryMetric(t *testing.T) {
	labels := map[string]string{"program": "other", "node": "n1"}
	m, registry := newMetrics(t, prometheus.WithNamespace("my_agent"),
		prometheus.WithConstLabels(labels), prometheus.WithConstLabels(map[string]string{"program": "agent"}))
	labels["node"] = "changed afterwards"
	metrics.Attach(m, module, "", &figures{States: []metrics.StateCount{{State: "retry"}}})
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for _, family := range families {
		assert.True(t, strings.HasPrefix(family.GetName(), "my_agent_"), family.GetName())
		for _, metric := range family.GetMetric() {
			got := map[string]string{}
			for _, label := range metric.GetLabel() {
				got[label.GetName()] = label.GetValue()
			}
			assert.Equal(t, "agent", got["program"], family.GetName())
			assert.Equal(t, "n1", got["node"], family.GetName())
			assert.Equal(t, "agent.routing", got["reconciler"], family.GetName())
		}
	}
}

func TestTwoOfDifferentConstLabelsShareARegistry(t *testing.T) {
	registry := client.NewPedanticRegistry()
	for _, program := range []string{"one", "two"} {
		m, err := prometheus.New(prometheus.WithConstLabels(map[string]string{"program": program}))
		require.NoError(t, err)
		require.NoError(t, registry.Register(m))
		metrics.Attach(m, module, "", &figures{})
	}
	count, err := testutil.GatherAndCount(registry, "statekeel_objects")
	require.NoError(t, err)
	assert.Equal(t, 2, count)
}

func TestNewSaysAllThatIsWrong(t *testing.T) {
	m, err := prometheus.New(prometheus.WithNamespace("my-agent"), prometheus.WithConstLabels(map[string]string{
		"__name__": "x", "a b": "x", "le": "x", "reconciler": "x", "node": "\xff", "fine": "",
	}))
	assert.Nil(t, m)
	assert.EqualError(t, err, `namespace "my-agent": must be letters, digits and underscores, no digit first
constant label "__name__": must be letters, digits and underscores, no digit and not two underscores first
constant label "a b": must be letters, digits and underscores, no digit and not two underscores first
constant label "le": the metrics have a label of that name
constant label "node": value "\xff" is not UTF-8
constant label "reconciler": the metrics have a label of that name`)
}
