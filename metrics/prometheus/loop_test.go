// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

type route struct {
	ID     uint64
	Status reconciler.Status
}

func (r *route) Clone() *route                        { c := *r; return &c }
func (r *route) setStatus(s reconciler.Status) *route { r.Status = s; return r }
func (r *route) getStatus() reconciler.Status         { return r.Status }
func (*route) TableHeader() []string                  { return []string{"ID"} }
func (r *route) TableRow() []string                   { return []string{r.Status.String()} }
func routeKey(r *route) index.KeySet                  { return index.NewKeySet(index.Uint64(r.ID)) }

var routeIndex = statedb.Index[*route, uint64]{
	Name: "id", FromObject: routeKey, FromKey: index.Uint64, Unique: true,
}

// counting is a target that counts, and refuses the routes below a number.
type counting struct {
	refused                       atomic.Uint64
	done, failed, deleted, pruned atomic.Uint64
}

func (c *counting) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	time.Sleep(time.Millisecond)
	if r.ID < c.refused.Load() {
		c.failed.Add(1)
		return errors.New("refused")
	}
	c.done.Add(1)
	return nil
}

func (c *counting) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *route) error {
	c.deleted.Add(1)
	return nil
}

func (c *counting) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*route, statedb.Revision]) error {
	c.pruned.Add(1)
	return errors.New("cannot list")
}

// world is a table, a target, and a loop between them whose figures are scraped.
type world struct {
	*testing.T
	db       *statedb.DB
	table    statedb.RWTable[*route]
	target   *counting
	expvar   *metrics.ExpVar
	registry *client.Registry
}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, db: statedb.New(), target: &counting{}, expvar: metrics.NewExpVar()}
		require.NoError(t, w.db.Start())
		defer func() { require.NoError(t, w.db.Stop()) }()
		var err error
		w.table, err = statedb.NewTable(w.db, "routes", routeIndex)
		require.NoError(t, err)
		m, registry := newMetrics(t)
		w.registry = registry
		loop, err := reconciler.New(reconciler.Config[*route]{
			DB: w.db, Table: w.table,
			Clone: (*route).Clone, SetStatus: (*route).setStatus, GetStatus: (*route).getStatus,
			Operations: w.target, ModuleID: module,
			Options: []reconciler.Option{
				reconciler.WithName("v6"), reconciler.WithMetrics(metrics.Join(w.expvar, m)),
				reconciler.WithRefreshing(0, nil), reconciler.WithRetry(time.Second, time.Minute),
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		<-ended
		assert.Empty(t, text(t, registry), "a stopped loop is still scraped")
		assert.Equal(t, "{}", w.expvar.FiguresVar.String())
	})
}

// put inserts routes, from a number up to before another.
func (w *world) put(from, to uint64) {
	wtxn := w.db.WriteTxn(w.table)
	for id := from; id < to; id++ {
		_, _, err := w.table.Insert(wtxn, &route{ID: id, Status: reconciler.StatusPending()})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

func (w *world) remove(from, to uint64) {
	wtxn := w.db.WriteTxn(w.table)
	for id := from; id < to; id++ {
		_, _, err := w.table.Delete(wtxn, &route{ID: id})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

// metric returns the one metric of a name and the labels, given as name and value in turn.
func (w *world) metric(name string, labels ...string) *dto.Metric {
	w.Helper()
	families, err := w.registry.Gather()
	require.NoError(w, err)
	for _, family := range families {
		if family.GetName() != "statekeel_"+name {
			continue
		}
	metrics:
		for _, metric := range family.GetMetric() {
			has := map[string]string{}
			for _, label := range metric.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if has[labels[i]] != labels[i+1] {
					continue metrics
				}
			}
			require.Equal(w, "agent.routing/v6", has["reconciler"])
			return metric
		}
	}
	require.Fail(w, "no metric", "%s %v", name, labels)
	return nil
}

func (w *world) counter(name string, labels ...string) uint64 {
	return uint64(w.metric(name, labels...).GetCounter().GetValue())
}

func (w *world) gauge(name string, labels ...string) float64 {
	return w.metric(name, labels...).GetGauge().GetValue()
}

func (w *world) histogram(name string, labels ...string) *dto.Histogram {
	return w.metric(name, labels...).GetHistogram()
}

// A scrape shows what the target has counted itself.
func TestAScrapeShowsWhatTheLoopDid(t *testing.T) {
	inWorld(t, func(w *world) {
		const objects, failing, removed = 200, 7, 20
		w.target.refused.Store(failing)
		w.put(0, objects)
		time.Sleep(10 * time.Second)
		synctest.Wait()

		done, failed := w.target.done.Load(), w.target.failed.Load()
		require.EqualValues(t, objects-failing, done)
		require.Greater(t, failed, uint64(failing), "nothing was tried again")
		assert.Equal(t, done, w.counter("operations_total", "operation", "update", "result", "done"))
		assert.Equal(t, failed, w.counter("operations_total", "operation", "update", "result", "failed"))
		assert.Equal(t, failed-failing, w.counter("retries_total"))
		assert.EqualValues(t, objects, w.gauge("objects"))
		assert.EqualValues(t, failing, w.gauge("failing_objects"))
		assert.EqualValues(t, failing, w.gauge("objects_in_state", "state", "retry"))
		assert.Zero(t, w.gauge("unseen_changes"))
		assert.InDelta(t, 10, w.gauge("oldest_unapplied_seconds"), 0.001)
		assert.Equal(t, w.target.pruned.Load(), w.counter("prune_errors_total"))
		assert.Equal(t, w.target.pruned.Load(), w.histogram("prune_duration_seconds").GetSampleCount())
		assert.Equal(t, done, w.histogram("write_to_applied_seconds").GetSampleCount())

		durations := w.histogram("operation_duration_seconds", "operation", "update")
		assert.Equal(t, done+failed, durations.GetSampleCount())
		assert.InDelta(t, 0.001*float64(done+failed), durations.GetSampleSum(), 1e-6)
		assert.Len(t, populations(durations), 1, "each took a millisecond")

		w.target.refused.Store(0)
		w.remove(objects-removed, objects)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, removed, w.target.deleted.Load())
		assert.EqualValues(t, removed, w.counter("operations_total", "operation", "delete", "result", "done"))
		assert.EqualValues(t, objects, w.counter("operations_total", "operation", "update", "result", "done"))
		assert.EqualValues(t, objects-removed, w.gauge("objects"))
		assert.EqualValues(t, objects+removed, w.histogram("write_to_applied_seconds").GetSampleCount())
		assert.Zero(t, w.gauge("failing_objects"))
		assert.Zero(t, w.gauge("objects_in_state", "state", "retry"))
		assert.Zero(t, w.gauge("oldest_unapplied_seconds"))
	})
}

// Beside each other, expvar and Prometheus show the same.
func TestExpVarShowsTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		w.target.refused.Store(3)
		w.put(0, 50)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var shown map[string]struct {
			Objects, Failing int
			Retries          uint64
			Updates          struct{ Done, Failed uint64 }
		}
		require.NoError(t, json.Unmarshal([]byte(w.expvar.FiguresVar.String()), &shown))
		of := shown["agent.routing/v6"]
		assert.Equal(t, w.target.done.Load(), of.Updates.Done)
		assert.Equal(t, w.target.failed.Load(), of.Updates.Failed)
		assert.Equal(t, w.counter("retries_total"), of.Retries)
		assert.Equal(t, 50, of.Objects)
		assert.Equal(t, 3, of.Failing)
		assert.Equal(t, `{"agent.routing/v6": 3}`, w.expvar.ReconciliationCurrentErrorsVar.String(),
			"the eight maps are told as ever")
	})
}

// No label contains the name of an object, and the number of series does not grow.
func TestSeriesDoNotGrowWithObjects(t *testing.T) {
	inWorld(t, func(w *world) {
		before := seriesOf(text(t, w.registry))
		w.target.refused.Store(500)
		w.put(0, 1000)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 500, w.gauge("failing_objects"))
		assert.Equal(t, before, seriesOf(text(t, w.registry)))
	})
}

// seriesOf returns the names and labels of a text scrape.
func seriesOf(scraped string) (series []string) {
	for line := range strings.Lines(scraped) {
		if !strings.HasPrefix(line, "#") {
			series = append(series, line[:strings.LastIndex(line, " ")])
		}
	}
	return series
}
