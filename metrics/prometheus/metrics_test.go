// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"fmt"
	"reflect"
	"slices"
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

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
)

func TestAScrapeShowsAllFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.Figures()
		f.OldestUnapplied = time.Now().Add(-2500 * time.Millisecond)
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "v6", (*fake.Source)(&f))
		shown := text(t, registry)
		for series, want := range map[string]float64{
			`operations_total{operation="update",result="done"}`:     101,
			`operations_total{operation="update",result="failed"}`:   102,
			`operations_total{operation="update",result="terminal"}`: 103,
			`operations_total{operation="update",result="blocked"}`:  104,
			`operations_total{operation="update",result="requeued"}`: 105,
			`operations_total{operation="delete",result="done"}`:     111,
			`operations_total{operation="delete",result="failed"}`:   112,
			`operations_total{operation="delete",result="terminal"}`: 113,
			`operations_total{operation="delete",result="blocked"}`:  114,
			`operations_total{operation="delete",result="requeued"}`: 115,
			`operation_duration_seconds_sum{operation="update"}`:     1,
			`operation_duration_seconds_sum{operation="delete"}`:     2,
			`retries_total`:                       121,
			`released_total`:                      122,
			`refreshes_total`:                     123,
			`write_to_applied_seconds_sum`:        4,
			`in_force_seconds_sum`:                256,
			`panics_total`:                        131,
			`timeouts_total`:                      132,
			`breaker_openings_total`:              134,
			`round_duration_seconds_sum`:          8,
			`commit_size_sum`:                     16,
			`commit_duration_seconds_sum`:         32,
			`commit_lost_total`:                   141,
			`commit_conflicts_total`:              142,
			`prune_duration_seconds_sum`:          192,
			`prune_duration_seconds_count`:        2,
			`prune_errors_total`:                  151,
			`listed_total`:                        152,
			`adopted_total`:                       154,
			`different_total`:                     155,
			`missing_total`:                       156,
			`orphans_total`:                       157,
			`repairs_total`:                       158,
			`unset_total`:                         161,
			`objects`:                             171,
			`objects_in_state{state="retry"}`:     172,
			`objects_in_state{state="in flight"}`: 179,
			`unseen_changes`:                      173,
			`failing_objects`:                     174,
			`blocked_objects`:                     175,
			`unheld_objects`:                      178,
			`breakers_open`:                       176,
			`stuck_operations`:                    177,
			`paused`:                              1,
			`oldest_unapplied_seconds`:            2.5,
			`derived_total{input="pods"}`:         181,
			`lookups`:                             182,
			`table_lookups`:                       183,
		} {
			name, labels, _ := strings.Cut(series, "{")
			of := []string{`reconciler="agent.routing/v6"`}
			if labels != "" {
				of = append(of, strings.Split(strings.TrimSuffix(labels, "}"), ",")...)
			}
			slices.Sort(of)
			assert.Contains(t, shown, fmt.Sprintf("\nstatekeel_%s{%s} %v\n", name, strings.Join(of, ","), want))
		}
	})
}

func TestNoFigureIsLeftOut(t *testing.T) {
	var f metrics.Figures
	m, registry := newMetrics(t)
	metrics.Attach(m, module, "", (*fake.Source)(&f))
	before := text(t, registry)
	given := reflect.ValueOf(fake.Figures())
	for i := range given.NumField() {
		name := given.Type().Field(i).Name
		f = metrics.Figures{}
		if name == "OldestUnapplied" {
			f.OldestUnapplied = time.Now().Add(-time.Hour)
		} else {
			require.False(t, given.Field(i).IsZero(), "give %s a value in fake.Figures", name)
			reflect.ValueOf(&f).Elem().Field(i).Set(given.Field(i))
		}
		assert.NotEqual(t, before, text(t, registry), name)
	}
}

// The age is that at the scrape, not at the last round.
func TestTheOldestGrowsOlderBetweenScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "", &fake.Source{OldestUnapplied: time.Now()})
		for _, age := range []string{"0", "90", "180"} {
			assert.Contains(t, text(t, registry), `statekeel_oldest_unapplied_seconds{reconciler="agent.routing"} `+age+"\n")
			time.Sleep(90 * time.Second)
		}
	})
}

// Names, units, types and help texts are as promtool wants them, with native histograms
// alone and with classic buckets.
func TestTheLinterOfPrometheusFindsNothing(t *testing.T) {
	f := fake.Figures()
	for _, options := range [][]prometheus.Option{nil, {prometheus.WithoutClassicBuckets()}} {
		m, registry := newMetrics(t, options...)
		metrics.Attach(m, module, "v6", (*fake.Source)(&f))
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
}

// A reconciler that stops late must not remove its successor.
func TestOneThatDetachesLeavesOnlyItself(t *testing.T) {
	m, registry := newMetrics(t)
	former := metrics.Attach(m, module, "v4", &fake.Source{Objects: 1})
	other := metrics.Attach(m, module, "v6", &fake.Source{Objects: 2})
	latter := metrics.Attach(m, module, "v4", &fake.Source{Objects: 3})
	const v4 = `statekeel_objects{reconciler="agent.routing/v4"} 3` + "\n"
	const v6 = `statekeel_objects{reconciler="agent.routing/v6"} 2` + "\n"
	require.Contains(t, text(t, registry), v4+v6)
	former()
	other()
	require.Contains(t, text(t, registry), v4)
	require.NotContains(t, text(t, registry), "v6")
	latter()
	require.Empty(t, text(t, registry))
}

// Counters have a start time, so that a new reconciler under an old name is not mistaken for the
// old one, even if it has counted more by the next scrape.
func TestCountersCountSinceTheReconcilerWasAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := newMetrics(t)
		metrics.Attach(m, module, "", &fake.Source{Retries: 1})
		time.Sleep(time.Hour)
		restarted := time.Now()
		metrics.Attach(m, module, "", &fake.Source{Retries: 2})
		time.Sleep(time.Hour)
		shown := scrape(t, registry)
		counter := shown["statekeel_retries_total"].GetMetric()[0].GetCounter()
		assert.Equal(t, 2.0, counter.GetValue())
		assert.True(t, restarted.Equal(counter.GetCreatedTimestamp().AsTime()))
		rounds := shown["statekeel_round_duration_seconds"].GetMetric()[0].GetHistogram()
		assert.True(t, restarted.Equal(rounds.GetCreatedTimestamp().AsTime()))
	})
}

func TestHostileNamesDoNotBreakAScrapeOrCollide(t *testing.T) {
	m, registry := newMetrics(t)
	metrics.Attach(m, cell.FullModuleID{"a\"} 1\nb\xff"}, "<img>", &fake.Source{Objects: 7})
	assert.Contains(t, text(t, registry), "\nstatekeel_objects{reconciler=\"\\\"a\\\\\\\"} 1\\\\nb\\\\xff/<img>\\\"\"} 7\n")
	names := []string{"a\xff", "a\xfe", "a\uFFFD", `"agent.routing/a\xff"`, `"agent.routing/a\\xff"`, ""}
	for _, name := range names {
		metrics.Attach(m, module, name, &fake.Source{})
	}
	metrics.Attach(m, nil, "a\xff", &fake.Source{})
	metrics.Attach(m, cell.FullModuleID{`"/a\xff"`}, "", &fake.Source{})
	count, err := testutil.GatherAndCount(registry, "statekeel_objects")
	require.NoError(t, err)
	assert.Equal(t, 1+len(names)+2, count)
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
				metrics.Attach(m, module, fmt.Sprint(n), &fake.Source{Objects: n})
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
	metrics.Attach(m, module, "", &fake.Source{States: []metrics.StateCount{{State: "retry"}}})
	families := scrape(t, registry)
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
		metrics.Attach(m, module, "", &fake.Source{})
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
