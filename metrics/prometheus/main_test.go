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
