// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
)

func ExampleNew() {
	shown, err := prometheus.New()
	if err != nil {
		panic(err)
	}
	registry := client.NewRegistry()
	registry.MustRegister(shown)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	// A reconciler does this when it is made with reconciler.WithMetrics(shown).
	metrics.Attach(shown, module, "v6", &fake.Source{Objects: 3})

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "statekeel_objects{") {
			fmt.Print(line)
		}
	}
	// Output: statekeel_objects{reconciler="agent.routing/v6"} 3
}
