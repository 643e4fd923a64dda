// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func newNames(t *testing.T, db *statedb.DB, name string) statedb.RWTable[string] {
	t.Helper()
	table, err := statedb.NewTableAny(db, name, func() []string { return nil }, func(string) []string { return nil },
		statedb.Index[string, string]{
			Name: "name", Unique: true, FromString: index.FromString, FromKey: index.String,
			FromObject: func(name string) index.KeySet { return index.NewKeySet(index.String(name)) },
		})
	require.NoError(t, err)
	return table
}

// newInputs returns an Inputs of a database, and a registry that checks everything it can.
func newInputs(t *testing.T, db *statedb.DB, options ...prometheus.Option) *client.Registry {
	t.Helper()
	shown, err := prometheus.NewInputs(db, options...)
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(shown))
	return registry
}

// A store that is away, and what a source or a derivation rejects, can be seen without a shell.
func TestAScrapeShowsWhatFillsTheTables(t *testing.T) {
	reconcilertest.Run(t, func(db *statedb.DB) (statedb.RWTable[string], error) {
		return newNames(t, db, "wishes"), nil
	}, func(e *reconcilertest.Env[string]) {
		registry := newInputs(t, e.DB)
		assert.Empty(t, text(t, registry))

		etcd, err := source.New(source.Config[string]{
			Name: "etcd", DB: e.DB, Table: e.Table, Owner: func(name string) string {
				if strings.HasPrefix(name, "op-") {
					return "operator"
				}
				return "etcd"
			},
		})
		require.NoError(t, err)
		e.Cleanup(etcd.Close)
		derived, err := derive.Each(derive.Config[string]{DB: e.DB}, e.Table, newNames(t, e.DB, "routes"), func(name string) ([]string, error) {
			if name == "abad" {
				return nil, errors.New("bad")
			}
			return []string{name + "-route"}, nil
		})
		require.NoError(t, err)
		e.Cleanup(derived.Close)
		shows := func(lines ...string) {
			t.Helper()
			scraped := text(t, registry)
			for _, line := range lines {
				assert.Contains(t, scraped, "statekeel_input_"+line+"\n")
			}
		}
		shows(`connected{input="etcd",table="wishes"} 0`, `revision{input="etcd",table="wishes"} 0`, `connected{input="wishes",table="routes"} 0`)

		reconcilertest.Go(e, derived.Run)
		etcd.Connected()
		_, err = etcd.Replace(e.Context(), []string{"aone", "abad", "op-1"}, 7)
		require.Error(t, err, "a row of another owner")
		e.Pass(0)
		shows(`connected{input="etcd",table="wishes"} 1`, `revision{input="etcd",table="wishes"} 7`, `rejected_objects{input="etcd",table="wishes"} 1`,
			`connected{input="wishes",table="routes"} 1`, `rejected_objects{input="wishes",table="routes"} 1`)
		etcd.Disconnected(errors.New("no route to host"))
		shows(`connected{input="etcd",table="wishes"} 0`, `revision{input="etcd",table="wishes"} 7`)
		etcd.Close()
		assert.NotContains(t, text(t, registry), `input="etcd"`, "a source that was closed on purpose is not away")
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	})
}

func TestOptionsOfInputsAreChecked(t *testing.T) {
	_, err := prometheus.NewInputs(nil, prometheus.WithNamespace("1"), prometheus.WithConstLabels(map[string]string{"table": "x", "input": "y"}))
	require.Error(t, err)
	for _, want := range []string{`namespace "1"`, "db is nil", `constant label "table"`, `constant label "input"`} {
		assert.ErrorContains(t, err, want)
	}
	registry := newInputs(t, statedb.New(), prometheus.WithConstLabels(map[string]string{"agent": "a"}))
	assert.Empty(t, text(t, registry))
}

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
