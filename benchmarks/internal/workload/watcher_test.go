// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// pages are the answers of a server by path; any other path is not found.
type pages map[string]string

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, ok := p[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(page))
}

// complete are pages with everything that a watcher expects.
func complete() pages {
	return pages{
		"/metrics": "# HELP statekeel_operations_total Operations.\n" +
			"statekeel_operations_total{operation=\"update\",result=\"done\"} 1e+06\n" +
			"statekeel_operations_total{operation=\"delete\",result=\"done\"} 2\n" +
			"statekeel_operations_total_of_others{} 7\n",
		"/vars": `{"reconciliation_figures": {}}`,
		"/show": `{"timeline": []}`,
	}
}

func viewOf(t *testing.T, handler http.Handler) *subject.View {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &subject.View{
		MetricsURL: server.URL + "/metrics", VarsURL: server.URL + "/vars", ShowURL: server.URL + "/show",
	}
}

func TestWatcherReadsEverythingAtOnce(t *testing.T) {
	var gets atomic.Int64
	all := make(chan struct{})
	w := watch(t.Context(), viewOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		complete().ServeHTTP(w, r)
		if gets.Add(1) == 3 {
			close(all)
		}
	})))
	<-all
	looks, err := w.stop()
	require.NoError(t, err)
	assert.LessOrEqual(t, looks, uint64(1), "the end may have interrupted the read, and reads are a second apart")
	assert.EqualValues(t, 3, gets.Load())
}

func TestWatcherFailsOnAnIncompletePage(t *testing.T) {
	for path, complaint := range map[string]string{
		"/metrics": "there is no statekeel_operations_total{",
		"/vars":    `there is no "reconciliation_figures"`,
		"/show":    `there is no "timeline"`,
	} {
		t.Run(path, func(t *testing.T) {
			empty, missing := complete(), complete()
			empty[path] = "{}"
			delete(missing, path)

			w := watch(t.Context(), viewOf(t, empty))
			<-w.ended
			looks, err := w.stop()
			assert.ErrorContains(t, err, complaint)
			assert.Zero(t, looks)

			w = watch(t.Context(), viewOf(t, missing))
			<-w.ended
			_, err = w.stop()
			assert.ErrorContains(t, err, path+`": 404 Not Found`)
		})
	}
}

func TestOperationsAreSummedOverLabels(t *testing.T) {
	w := watch(t.Context(), viewOf(t, complete()))
	_, err := w.stop()
	require.NoError(t, err)
	n, err := w.operations(t.Context())
	w.client.CloseIdleConnections()
	require.NoError(t, err)
	assert.EqualValues(t, 1_000_002, n)

	unreadable := complete()
	unreadable["/metrics"] = "statekeel_operations_total{} many\n"
	w = watch(t.Context(), viewOf(t, unreadable))
	_, err = w.stop()
	require.NoError(t, err)
	_, err = w.operations(t.Context())
	w.client.CloseIdleConnections()
	assert.ErrorContains(t, err, `value of statekeel_operations_total{}`)
}
