// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rulestest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// labelsOfScrapes are the labels that Prometheus adds.
var labelsOfScrapes = []string{"instance", "job"}

var promQL = parser.NewParser(parser.Options{})

type noFigures struct{}

func (noFigures) Figures() metrics.Figures {
	return metrics.Figures{States: []metrics.StateCount{{State: "retry"}, {State: "in flight"}}}
}

// scraped returns what the collectors show.
func scraped(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	m, err := prometheus.New()
	require.NoError(t, err)
	metrics.Attach(m, cell.FullModuleID{"agent"}, "routes", noFigures{})
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	require.NoError(t, registry.Register(newInputs(t)))
	acks, err := prometheus.NewAcks()
	require.NoError(t, err)
	acks.Told("agent", 1, 1, 0, nil)
	require.NoError(t, registry.Register(acks))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	return families
}

// newInputs returns an Inputs of a database with one source.
func newInputs(t *testing.T) *prometheus.Inputs {
	t.Helper()
	db := statedb.New()
	byName := statedb.Index[string, string]{
		Name: "name", Unique: true, FromObject: func(name string) index.KeySet { return index.NewKeySet(index.String(name)) },
	}
	routes, err := statedb.NewTableAny(db, "routes", func() []string { return nil }, func(string) []string { return nil }, byName)
	require.NoError(t, err)
	sink, err := source.New(source.Config[string]{Name: "etcd", DB: db, Table: routes})
	require.NoError(t, err)
	t.Cleanup(sink.Close)
	shown, err := prometheus.NewInputs(db)
	require.NoError(t, err)
	return shown
}

// known returns the names of the series that there can be, each with its labels: for a
// histogram those of the native one and of the classic one.
func known(t *testing.T) map[string][]string {
	t.Helper()
	series := map[string][]string{}
	for _, family := range scraped(t) {
		labels := slices.Clone(labelsOfScrapes)
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		series[family.GetName()] = labels
		if family.GetType() == dto.MetricType_HISTOGRAM {
			series[family.GetName()+"_sum"] = labels
			series[family.GetName()+"_count"] = labels
			series[family.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
	return series
}

// assertNames asserts that an expression parses, and that its metrics and labels are
// known. It returns the metrics.
func assertNames(t *testing.T, series map[string][]string, expr string) []string {
	t.Helper()
	parsed, err := promQL.ParseExpr(expr)
	require.NoError(t, err, expr)
	var names, labels []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			of, ok := series[node.Name]
			assert.True(t, ok, "there is no metric %q, which %s has", node.Name, expr)
			names = append(names, node.Name)
			labels = append(labels, of...)
			for _, m := range node.LabelMatchers {
				assert.True(t, m.Name == "__name__" || slices.Contains(of, m.Name), "%s has no label %q, which %s has", node.Name, m.Name, expr)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if node, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range node.Grouping {
				assert.Contains(t, labels, label, expr)
			}
		}
		return nil
	})
	require.NotEmpty(t, names, expr)
	return names
}

// storageOf returns a storage with what a load command of promtool's tests has.
func storageOf(t *testing.T, load string) storage.Queryable {
	t.Helper()
	s := promqltest.LoadedStorage(t, load)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// evaluate returns the series of an expression from the beginning of time to its end, one
// value a minute.
func evaluate(t *testing.T, s storage.Queryable, expr string, until time.Duration) promql.Matrix {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	begin := time.Unix(0, 0)
	query, err := engine.NewRangeQuery(t.Context(), s, nil, expr, begin, begin.Add(until), time.Minute)
	require.NoError(t, err, expr)
	t.Cleanup(query.Close)
	result := query.Exec(t.Context())
	require.NoError(t, result.Err, expr)
	assert.Empty(t, result.Warnings.AsErrors(), expr)
	matrix, err := result.Matrix()
	require.NoError(t, err, expr)
	return matrix
}

// loadAll returns the load command for an hour of everything that the collector shows,
// all of it growing, with histograms of one of the two kinds.
func loadAll(t *testing.T, native bool) string {
	t.Helper()
	var load strings.Builder
	load.WriteString("load 1m\n")
	for _, family := range scraped(t) {
		for _, metric := range family.GetMetric() {
			labels := []string{`instance="a:1"`, `job="agents"`}
			for _, label := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			add := func(name, values string, more ...string) {
				fmt.Fprintf(&load, "  %s{%s} %s\n", name, strings.Join(slices.Concat(labels, more), ", "), values)
			}
			switch {
			case family.GetType() != dto.MetricType_HISTOGRAM:
				add(family.GetName(), "1+1x60")
			case native:
				const h = "{{schema:3 sum:3 count:4 buckets:[1 2 1]}}"
				add(family.GetName(), h+"+"+h+"x60")
			default:
				for i, bucket := range metric.GetHistogram().GetBucket() {
					add(family.GetName()+"_bucket", fmt.Sprintf("0+%dx60", i), fmt.Sprintf("le=\"%g\"", bucket.GetUpperBound()))
				}
				add(family.GetName()+"_bucket", "0+20x60", `le="+Inf"`)
				add(family.GetName()+"_count", "0+20x60")
				add(family.GetName()+"_sum", "0+9x60")
			}
		}
	}
	return load.String()
}
