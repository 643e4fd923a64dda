// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// scraped are the metrics of one reconciler, by their names and the values of their other labels, such as
// "objects_in_state retry".
func scraped(t *testing.T, registry *client.Registry) map[string]*dto.Metric {
	all := map[string]*dto.Metric{}
	for _, family := range scrape(t, registry) {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "statekeel_")
			for _, label := range metric.GetLabel() {
				if label.GetName() != "reconciler" {
					name += " " + label.GetValue()
				}
			}
			all[name] = metric
		}
	}
	return all
}

// counted returns the value of a counter or a gauge.
func counted(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// A scrape shows what the target has counted itself. Its series do not grow with the number of objects.
func TestAScrapeShowsWhatTheLoopDid(t *testing.T) {
	reconcilertest.Run(t, func(db *statedb.DB) (statedb.RWTable[string], error) {
		return newNames(t, db, "routes"), nil
	}, func(e *reconcilertest.Env[string]) {
		const objects, failing, removed = 200, 7, 20
		var refused atomic.Bool
		refused.Store(true)
		target := reconcilertest.NewTarget(func(name string) string { return name }, nil)
		target.Decide(func(_ context.Context, c reconcilertest.Call[string]) error {
			time.Sleep(time.Millisecond)
			if c.Op == "prune" || strings.HasPrefix(c.Key, "bad") && refused.Load() {
				return errors.New("refused")
			}
			return nil
		})
		m, registry := newMetrics(t)
		shown := metrics.NewExpVar()
		e.Start(reconciler.Config[string]{Operations: target, ModuleID: module, Options: []reconciler.Option{
			reconciler.WithName("v6"), reconciler.WithMetrics(metrics.Join(shown, m)),
			reconciler.WithRefreshing(0, nil), reconciler.WithRetry(time.Second, time.Minute),
		}})
		before := scraped(t, registry)
		var names []string
		for i := range objects {
			names = append(names, fmt.Sprintf("%s%03d", map[bool]string{true: "bad", false: "good"}[i < failing], i))
		}
		e.Insert(names...)
		e.Pass(10 * time.Second)
		calls := map[string]float64{}
		count := func() {
			for _, c := range target.Take() {
				calls[fmt.Sprint(c.Op, " ", map[bool]string{true: "done", false: "failed"}[c.Err == nil])]++
			}
		}
		count()
		now := scraped(t, registry)
		require.Len(t, now, len(before))
		done, failed := calls["update done"], calls["update failed"]
		require.EqualValues(t, objects-failing, done)
		require.Greater(t, failed, float64(failing), "nothing was tried again")
		for name, want := range map[string]float64{
			"operations_total update done": done, "operations_total update failed": failed, "retries_total": failed - failing,
			"objects": objects, "failing_objects": failing, "objects_in_state retry": failing, "unseen_changes": 0,
			"prune_errors_total": calls["prune failed"],
		} {
			require.Contains(t, now, name)
			assert.Equal(t, want, counted(now[name]), name)
		}
		assert.InDelta(t, 10, counted(now["oldest_unapplied_seconds"]), 0.001)
		assert.EqualValues(t, done, now["write_to_applied_seconds"].GetHistogram().GetSampleCount())
		durations := now["operation_duration_seconds update"].GetHistogram()
		assert.EqualValues(t, done+failed, durations.GetSampleCount())
		assert.InDelta(t, 0.001*(done+failed), durations.GetSampleSum(), 1e-6)
		assert.Len(t, populations(durations), 1, "each took a millisecond")
		assert.Contains(t, shown.FiguresVar.String(), fmt.Sprintf(`"updates":{"done":%.0f,"failed":%.0f,`, done, failed))
		assert.Equal(t, fmt.Sprintf(`{"agent.routing/v6": %d}`, failing), shown.ReconciliationCurrentErrorsVar.String(),
			"the eight maps are told as ever")

		refused.Store(false)
		e.Delete(names[objects-removed:]...)
		e.Pass(time.Minute)
		now = scraped(t, registry)
		for name, want := range map[string]float64{
			"operations_total delete done": removed, "operations_total update done": objects, "objects": objects - removed,
			"failing_objects": 0, "objects_in_state retry": 0, "oldest_unapplied_seconds": 0,
		} {
			assert.Equal(t, want, counted(now[name]), name)
		}
		e.Stop()
		assert.Empty(t, text(t, registry), "a stopped loop is still scraped")
		assert.Equal(t, "{}", shown.FiguresVar.String())
	})
}
