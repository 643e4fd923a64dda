// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"errors"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics/prometheus"
)

func TestAScrapeShowsTheLastAckOfEachAgent(t *testing.T) {
	acks, err := prometheus.NewAcks(prometheus.WithConstLabels(map[string]string{"rack": "a"}))
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(acks))
	assert.Empty(t, text(t, registry))

	acks.Told("routes", 9, 7, 2, errors.New("no route to host"))
	acks.Told("routes", 9, 8, 1, errors.New("no route to host"))
	acks.Told("links \xff", 5, 5, 0, nil)
	scraped := text(t, registry)
	for _, line := range []string{
		`ack_told{name="routes",rack="a"} 0`, `ack_revision{name="routes",rack="a"} 9`,
		`ack_applied_revision{name="routes",rack="a"} 8`, `ack_problems{name="routes",rack="a"} 1`,
		`ack_told{name="\"links \\xff\"",rack="a"} 1`,
	} {
		assert.Contains(t, scraped, "statekeel_"+line+"\n")
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)

	_, err = prometheus.NewAcks(prometheus.WithConstLabels(map[string]string{"name": "x"}))
	require.ErrorContains(t, err, `constant label "name"`)
}
