// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestOnlyObservedContendersHaveAView(t *testing.T) {
	for _, c := range subject.Contenders() {
		if c.Start == nil {
			continue
		}
		sys := started(t, c, subject.Options{})
		assert.Equal(t, c.Name == subject.StatekeelObserved, sys.View() != nil, c.Name)
	}
}

func TestViewShowsItsOwnSystem(t *testing.T) {
	ctx := within(t)
	sys := started(t, byName(t, subject.StatekeelObserved), subject.Options{})
	started(t, byName(t, subject.StatekeelObserved), subject.Options{})
	require.NoError(t, sys.Insert(0, 7))
	view := sys.View()
	require.Len(t, view.Registry.All(), 1)
	inspector := view.Registry.All()[0]
	_, err := inspector.WaitAll(ctx, reconciler.Applied)
	require.NoError(t, err)
	inspector.Snapshot(ctx) // answered between two rounds: the last one is counted
	assert.NotEmpty(t, inspector.(inspect.Loop).Events(inspect.EventQuery{}), "the journal is on")

	assert.Contains(t, get(ctx, t, view.MetricsURL),
		`statekeel_operations_total{operation="update",reconciler="bench",result="done"} 7`)
	assert.Contains(t, get(ctx, t, view.VarsURL), `"reconciliation_figures"`)
	var page struct {
		Snapshot struct {
			Objects int `json:"objects"`
		} `json:"snapshot"`
	}
	require.NoError(t, json.Unmarshal([]byte(get(ctx, t, view.ShowURL)), &page))
	assert.Equal(t, 7, page.Snapshot.Objects)
}

func get(ctx context.Context, t *testing.T, url string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	return string(body)
}
