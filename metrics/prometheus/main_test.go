// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/hive/cell"
	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/metrics/prometheus"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var module = cell.FullModuleID{"agent", "routing"}

// newMetrics returns a Metrics, and a registry that checks everything it can.
func newMetrics(t *testing.T, options ...prometheus.Option) (*prometheus.Metrics, *client.Registry) {
	t.Helper()
	m, err := prometheus.New(options...)
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	return m, registry
}

// scrape returns the metrics by name, with native histograms.
func scrape(t *testing.T, registry *client.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	byName := map[string]*dto.MetricFamily{}
	for _, family := range families {
		byName[family.GetName()] = family
	}
	return byName
}

// text returns the text format, for readers without native histograms.
func text(t *testing.T, registry *client.Registry) string {
	t.Helper()
	var out strings.Builder
	families := scrape(t, registry)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		_, err := expfmt.MetricFamilyToText(&out, families[name])
		require.NoError(t, err)
	}
	return out.String()
}
