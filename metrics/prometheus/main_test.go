// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cilium/hive/cell"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var module = cell.FullModuleID{"agent", "routing"}

// figures is a Source that always returns the same figures.
type figures metrics.Figures

func (f *figures) Figures() metrics.Figures { return metrics.Figures(*f) }

// histogram returns one of the values.
func histogram(values ...float64) (h metrics.Histogram) {
	for _, v := range values {
		h.Observe(v)
	}
	return h
}

// distinct are figures that all differ.
func distinct() metrics.Figures {
	return metrics.Figures{
		Updates: metrics.OperationFigures{
			Done: 101, Failed: 102, Terminal: 103, Blocked: 104, Requeued: 105, Durations: histogram(1),
		},
		Deletes: metrics.OperationFigures{
			Done: 111, Failed: 112, Terminal: 113, Blocked: 114, Requeued: 115, Durations: histogram(2),
		},
		Retries: 121, Released: 122, Refreshes: 123, Latency: histogram(4),
		Panics: 131, Timeouts: 132, BreakerOpenings: 134,
		Rounds: histogram(8), CommitSizes: histogram(16), CommitDurations: histogram(32),
		Lost: 141, Conflicts: 142,
		Prunes: histogram(64, 128), PruneErrors: 151, Listed: 152, Swept: 153,
		Unset: 161, Objects: 171,
		States: []metrics.StateCount{{State: "retry", Count: 172}, {State: "in flight", Count: 179}},
		Unseen: 173, Failing: 174, Blocked: 175, BreakersOpen: 176, Stuck: 177, Paused: true,
	}
}

// newMetrics returns a Metrics, and a registry that checks everything it can.
func newMetrics(t *testing.T, options ...prometheus.Option) (*prometheus.Metrics, *client.Registry) {
	t.Helper()
	m, err := prometheus.New(options...)
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	return m, registry
}

// scrape gets the metrics over HTTP. Its body is for the caller to close.
func scrape(t *testing.T, registry *client.Registry, format expfmt.Format) *http.Response {
	t.Helper()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", string(format))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", recorder.Body)
	return response
}

// text returns the text format, for readers without native histograms.
func text(t *testing.T, registry *client.Registry) string {
	t.Helper()
	response := scrape(t, registry, expfmt.NewFormat(expfmt.TypeTextPlain))
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// protobuf returns the metrics in the format with native histograms, by name.
func protobuf(t *testing.T, registry *client.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	response := scrape(t, registry, expfmt.NewFormat(expfmt.TypeProtoDelim))
	defer func() { _ = response.Body.Close() }()
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	families := map[string]*dto.MetricFamily{}
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if err == io.EOF {
			return families
		}
		require.NoError(t, err)
		families[family.GetName()] = &family
	}
}
