// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"errors"
	"expvar"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	peer "github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/metrics"
)

var errBusy = errors.New("busy")

// The figures mean the same as the peer's, whether they come through the methods, through one
// handle, or through several.
func TestExpVarShowsWhatThePeerShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := metrics.NewExpVar(), peer.NewUnpublishedExpVarMetrics()
		modules := []cell.FullModuleID{nil, {"agent"}, module}
		names := []string{"", "v4", "v6"}
		handles := map[string][]metrics.Handle{}

		for range rapid.IntRange(0, 30).Draw(t, "calls") {
			id := rapid.SampledFrom(modules).Draw(t, "module")
			name := rapid.SampledFrom(names).Draw(t, "name")
			way := rapid.SampledFrom([]string{"methods", "new handle", "old handle"}).Draw(t, "way")

			known := handles[id.String()+"/"+name]
			var handle metrics.Handle
			switch {
			case way == "methods":
				handle = metrics.Bind(struct{ metrics.Metrics }{ours}, id, name)
			case way == "new handle" || len(known) == 0:
				handle = metrics.Bind(ours, id, name)
				handles[id.String()+"/"+name] = append(known, handle)
			default:
				handle = rapid.SampledFrom(known).Draw(t, "handle")
			}
			call := drawCall(t)
			call(handle)
			call(metrics.Bind(theirs, id, name))
			assert.Equal(t, theirs.Map().String(), ours.Map().String())
		}
	})
}

// drawCall draws one call of one method.
func drawCall(t *rapid.T) func(metrics.Handle) {
	duration := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration"))
	number := rapid.IntRange(0, 5).Draw(t, "number")
	err := rapid.SampledFrom([]error{nil, errBusy}).Draw(t, "error")
	return rapid.SampledFrom([]func(metrics.Handle){
		func(h metrics.Handle) { h.UpdateDuration(duration) },
		func(h metrics.Handle) { h.DeleteDuration(duration) },
		func(h metrics.Handle) { h.ReconciliationErrors(number, 2*number) },
		func(h metrics.Handle) { h.PruneError(err) },
		func(h metrics.Handle) { h.PruneDuration(duration) },
	}).Draw(t, "call")
}

func TestAVariableOfAnotherTypeIsLeftAlone(t *testing.T) {
	m := metrics.NewExpVar()
	note := new(expvar.String)
	each := func(do func(vars *expvar.Map, key string)) {
		m.Map().Do(func(kv expvar.KeyValue) {
			for _, key := range []string{"agent.routing", "agent.routing/update", "agent.routing/delete"} {
				do(kv.Value.(*expvar.Map), key)
			}
		})
	}
	each(func(vars *expvar.Map, key string) { vars.Set(key, note) })
	callAll(m.Bind(module, ""))
	callAll(metrics.Bind(struct{ metrics.Metrics }{m}, module, ""))
	each(func(vars *expvar.Map, key string) { assert.Same(t, note, vars.Get(key)) })
}

// Half a second is exact in binary, so the sums must be exact too.
func TestNoFigureGetsLostBetweenHandlesAndMethods(t *testing.T) {
	const each = 500
	m := metrics.NewExpVar()
	ways := []metrics.Handle{
		m.Bind(module, "v6"), m.Bind(module, "v6"), metrics.Bind(struct{ metrics.Metrics }{m}, module, "v6"),
	}
	var writers sync.WaitGroup
	for _, h := range ways {
		writers.Go(func() {
			for range each {
				h.UpdateDuration(time.Second / 2)
				h.DeleteDuration(time.Second / 2)
				h.ReconciliationErrors(2, 9)
				h.PruneError(errBusy)
				h.PruneDuration(time.Second / 2)
				_ = m.Map().String()
			}
		})
	}
	writers.Wait()
	assert.JSONEq(t, `{
		"reconciliation_count":          {"agent.routing/v6": 1500},
		"reconciliation_duration":       {"agent.routing/v6/update": 750, "agent.routing/v6/delete": 750},
		"reconciliation_total_errors":   {"agent.routing/v6": 3000},
		"reconciliation_current_errors": {"agent.routing/v6": 9},
		"prune_count":                   {"agent.routing/v6": 1500},
		"prune_duration":                {"agent.routing/v6": 750},
		"prune_total_errors":            {"agent.routing/v6": 1500},
		"prune_current_errors":          {"agent.routing/v6": 1}
	}`, m.Map().String())
}

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

// A cleared map must stay cleared: handles do not look up variables again.
func TestHandleLooksNothingUpAfterItsFirstUse(t *testing.T) {
	m := metrics.NewExpVar()
	h := m.Bind(module, "v6")
	callAll(h)
	m.Map().Do(func(kv expvar.KeyValue) { kv.Value.(*expvar.Map).Init() })
	empty := metrics.NewExpVar().Map().String()
	require.Equal(t, empty, m.Map().String())
	callAll(h)
	assert.Equal(t, empty, m.Map().String())
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
