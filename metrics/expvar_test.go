// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"encoding/json"
	"errors"
	"expvar"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
)

var errBusy = errors.New("busy")

// callNoErrors makes the calls of a loop without errors.
func callNoErrors(h metrics.Handle) {
	h.UpdateDuration(time.Millisecond)
	h.DeleteDuration(time.Millisecond)
	h.ReconciliationErrors(0, 0)
	h.PruneError(nil)
	h.PruneDuration(time.Millisecond)
}

func TestBoundFiguresAllocateNothing(t *testing.T) {
	h := metrics.NewExpVar().Bind(module, "v6")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		callNoErrors(h)
		h.PruneError(errBusy)
	}))
}

func assertMapHasTheFields(t *testing.T, m *metrics.ExpVar) {
	want := map[string]*expvar.Map{
		"reconciliation_count":          m.ReconciliationCountVar,
		"reconciliation_duration":       m.ReconciliationDurationVar,
		"reconciliation_total_errors":   m.ReconciliationTotalErrorsVar,
		"reconciliation_current_errors": m.ReconciliationCurrentErrorsVar,
		"prune_count":                   m.PruneCountVar,
		"prune_duration":                m.PruneDurationVar,
		"prune_total_errors":            m.PruneTotalErrorsVar,
		"prune_current_errors":          m.PruneCurrentErrorsVar,
	}
	var names []string
	m.Map().Do(func(kv expvar.KeyValue) {
		names = append(names, kv.Key)
		assert.Same(t, want[kv.Key], kv.Value, kv.Key)
	})
	assert.True(t, slices.IsSorted(names))
	assert.Len(t, names, len(want))
}

func TestExpVarShowsAllFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.Figures()
		f.OldestUnapplied = time.Now().Add(-2500 * time.Millisecond)
		m := metrics.NewExpVar()
		metrics.Attach(m, module, "v6", (*fake.Source)(&f))
		one := func(v string) string { return `{"count": 1, "sum": ` + v + `, "p50": ` + v + `, "p99": ` + v + `}` }
		assert.JSONEq(t, `{"agent.routing/v6": {
			"objects": 171, "states": {"retry": 172, "in flight": 179}, "unseen": 173,
			"failing": 174, "blocked": 175, "unheld": 178, "breakers_open": 176, "stuck": 177, "paused": true,
			"oldest_unapplied_seconds": 2.5, "write_to_applied_seconds": `+one("4")+`,
			"in_force_seconds": `+one("256")+`,
			"updates": {"done": 101, "failed": 102, "terminal": 103, "blocked": 104, "requeued": 105,
				"duration_seconds": `+one("1")+`},
			"deletes": {"done": 111, "failed": 112, "terminal": 113, "blocked": 114, "requeued": 115,
				"duration_seconds": `+one("2")+`},
			"retries": 121, "released": 122, "refreshes": 123,
			"panics": 131, "timeouts": 132, "breaker_openings": 134,
			"round_duration_seconds": `+one("8")+`,
			"commit_size": `+one("16")+`, "commit_duration_seconds": `+one("32")+`,
			"commit_lost": 141, "commit_conflicts": 142,
			"prune_duration_seconds": {"count": 2, "sum": 192, "p50": 64, "p99": 128},
			"prune_errors": 151, "listed": 152,
			"adopted": 154, "different": 155, "missing": 156, "orphans": 157, "repairs": 158, "unset": 161, "calls": {"pods": 181}, "edges": 182, "edges_to_all": 183
		}}`, m.FiguresVar.String())
	})
}

// What has not happened is a zero, not a missing name and not an age of many years.
func TestExpVarShowsZeroesFromTheStart(t *testing.T) {
	m := metrics.NewExpVar()
	metrics.Attach(m, module, "", &fake.Source{})
	var of map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(m.FiguresVar.String()), &of))
	shown := of["agent.routing"]
	require.Len(t, shown, 34)
	assert.Equal(t, 0.0, shown["oldest_unapplied_seconds"])
	assert.Equal(t, false, shown["paused"])
	assert.Equal(t, map[string]any{}, shown["states"])
	assert.Equal(t, map[string]any{"count": 0.0, "sum": 0.0, "p50": 0.0, "p99": 0.0}, shown["commit_size"])
}

func TestFiguresAreReadWhileReconcilersAttach(t *testing.T) {
	m := metrics.NewExpVar()
	var wg sync.WaitGroup
	for _, name := range []string{"v4", "v6", "v6"} {
		wg.Go(func() {
			for n := range 100 {
				metrics.Attach(m, module, name, &fake.Source{Objects: n})
				assert.True(t, json.Valid([]byte(m.FiguresVar.String())))
			}
		})
	}
	wg.Wait()
	var of map[string]struct{ Objects int }
	require.NoError(t, json.Unmarshal([]byte(m.FiguresVar.String()), &of))
	assert.Equal(t, map[string]struct{ Objects int }{"agent.routing/v4": {99}, "agent.routing/v6": {99}}, of)
}

func TestExpVarLeavesNoFigureOut(t *testing.T) {
	var f metrics.Figures
	m := metrics.NewExpVar()
	metrics.Attach(m, module, "", (*fake.Source)(&f))
	before := m.FiguresVar.String()
	given := reflect.ValueOf(fake.Figures())
	for i := range given.NumField() {
		name := given.Type().Field(i).Name
		f = metrics.Figures{}
		field := reflect.ValueOf(&f).Elem().Field(i)
		if name == "OldestUnapplied" {
			f.OldestUnapplied = time.Now().Add(-time.Hour)
		} else {
			require.False(t, given.Field(i).IsZero(), "give %s a value in fake.Figures", name)
			field.Set(given.Field(i))
		}
		assert.NotEqual(t, before, m.FiguresVar.String(), name)
	}
}

// An unlikely value must not break all of /debug/vars.
func TestExpVarIsAlwaysJSON(t *testing.T) {
	f := metrics.Figures{OldestUnapplied: time.Now().Add(time.Hour)}
	f.Rounds.ObserveMany(1e308, 1000)
	m := metrics.NewExpVar()
	metrics.Attach(m, module, "\"\n\xff", (*fake.Source)(&f))
	require.True(t, json.Valid([]byte(m.FiguresVar.String())))
	require.Contains(t, m.FiguresVar.String(), `"oldest_unapplied_seconds":0,`, "a clock was set")
}

// A reconciler that stops late must not remove its successor.
func TestOneThatDetachesLeavesOnlyItself(t *testing.T) {
	m := metrics.NewExpVar()
	former := metrics.Attach(m, module, "v4", &fake.Source{Objects: 1})
	other := metrics.Attach(m, module, "v6", &fake.Source{Objects: 2})
	latter := metrics.Attach(m, module, "v4", &fake.Source{Objects: 3})
	objects := func() map[string]struct{ Objects int } {
		var of map[string]struct{ Objects int }
		require.NoError(t, json.Unmarshal([]byte(m.FiguresVar.String()), &of))
		return of
	}
	require.Equal(t, map[string]struct{ Objects int }{"agent.routing/v4": {3}, "agent.routing/v6": {2}}, objects())
	former()
	other()
	require.Equal(t, map[string]struct{ Objects int }{"agent.routing/v4": {3}}, objects())
	latter()
	require.Empty(t, objects())
	// Programs that use the eight maps of the peer expect a number in each variable.
	m.Map().Do(func(kv expvar.KeyValue) { require.Equal(t, "{}", kv.Value.String(), kv.Key) })
}
