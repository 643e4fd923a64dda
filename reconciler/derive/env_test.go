// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wish is a row of the input: it wants places, and the lowest metric is the best.
type wish struct {
	Name   string
	Places string // separated by spaces
	Metric int
	// Fail has the function return an error ("error"), panic ("panic"), or the rank panic ("rank") or be no number
	// ("nan").
	Fail string
}

func (w *wish) TableHeader() []string { return []string{"Name", "Places", "Metric"} }
func (w *wish) TableRow() []string    { return []string{w.Name, w.Places, fmt.Sprint(w.Metric)} }

// route is a row of the output.
type route struct {
	Place  string
	From   string
	Metric int
	// Status is written by others.
	Status string
}

func (r *route) TableHeader() []string { return []string{"Place", "From", "Metric"} }
func (r *route) TableRow() []string    { return []string{r.Place, r.From, fmt.Sprint(r.Metric)} }

// indexBy returns an index by name. The names "keyless" and "empty" have no key and the empty key.
func indexBy[Row any](name func(Row) string) statedb.Index[Row, string] {
	return statedb.Index[Row, string]{
		Name: "name",
		FromObject: func(row Row) index.KeySet {
			switch key := name(row); key {
			case "keyless":
				return index.EmptyKeySet
			case "empty":
				return index.NewKeySet(nil)
			default:
				return index.NewKeySet(index.String(key))
			}
		},
		FromKey: index.String, FromString: index.FromString, Unique: true,
	}
}

var (
	byName  = indexBy(func(w *wish) string { return w.Name })
	byPlace = indexBy(func(r *route) string { return r.Place })
)

// routesOf is the function of most tests.
func routesOf(w *wish) (out []*route, err error) {
	switch w.Fail {
	case "error":
		return nil, errors.New("no route")
	case "panic":
		panic("oh no")
	}
	for place := range strings.FieldsSeq(w.Places) {
		out = append(out, &route{Place: place, From: w.Name, Metric: w.Metric})
	}
	return out, nil
}

func metricOf(w *wish) float64 {
	switch w.Fail {
	case "rank":
		panic("no rank")
	case "nan":
		return math.NaN()
	}
	return float64(w.Metric)
}

// commits calls a function after each commit, one call at a time.
type commits struct {
	statedb.Metrics
	mu    sync.Mutex
	after atomic.Pointer[func(tables []string)]
}

func (c *commits) WriteTxnDuration(handle string, tables []string, acquired time.Duration) {
	c.Metrics.WriteTxnDuration(handle, tables, acquired)
	if after := c.after.Load(); after != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		(*after)(tables)
	}
}

type derived = derive.Derived[*wish, *route]

// env is a database with an input and an output.
type env struct {
	*testing.T
	db       *statedb.DB
	commits  *commits
	wishes   statedb.RWTable[*wish]
	routes   statedb.RWTable[*route]
	cfg      derive.Config[*route]
	health   *reconcilertest.Health
	registry *inspect.Registry
	// picky: an index of the output panics for rows with the metric 13.
	picky atomic.Bool
}

func inBubble(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) { test(newEnv(t)) })
}

func newEnv(t *testing.T) *env {
	e := &env{
		T: t, commits: &commits{Metrics: statedb.NewExpVarMetrics(false)}, health: &reconcilertest.Health{}, registry: &inspect.Registry{},
	}
	e.db = reconcilertest.NewDB(t, statedb.WithMetrics(e.commits))
	e.wishes = newTable(e, "wishes", byName)
	e.routes = newTable(e, "routes", byPlace, statedb.Index[*route, string]{
		Name: "metric", FromKey: index.String,
		FromObject: func(r *route) index.KeySet {
			if e.picky.Load() && r.Metric == 13 {
				panic("unlucky")
			}
			return index.NewKeySet(index.String(fmt.Sprint(r.Metric)))
		},
	})
	e.cfg = derive.Config[*route]{DB: e.db, Health: e.health, Registry: e.registry}
	return e
}

func newTable[Row statedb.TableWritable](
	e *env, name string, primary statedb.Index[Row, string], secondary ...statedb.Indexer[Row],
) statedb.RWTable[Row] {
	table, err := statedb.NewTable(e.db, name, primary, secondary...)
	require.NoError(e, err)
	return table
}

func (e *env) each() *derived { return e.made(derive.Each(e.cfg, e.wishes, e.routes, routesOf)) }
func (e *env) best() *derived {
	return e.made(derive.Best(e.cfg, e.wishes, e.routes, routesOf, metricOf))
}

func (e *env) made(d *derived, err error) *derived {
	e.Helper()
	require.NoError(e, err)
	e.Cleanup(d.Close)
	return d
}

// run runs a derivation, and waits until it is idle.
func (e *env) run(d *derived) (stop func()) {
	stop = reconcilertest.Go(e, d.Run)
	synctest.Wait()
	return stop
}

// acts calls Retry or Refresh, which must be for so many rows, and waits until the derivations are idle.
func (e *env) acts(want int, act func(context.Context, ...string) (int, error), keys ...string) {
	e.Helper()
	n, err := act(e.Context(), keys...)
	require.NoError(e, err)
	require.Equal(e, want, n)
	synctest.Wait()
}

// write runs a transaction of the input, and waits until the derivations are idle.
func (e *env) write(write func(wtxn statedb.WriteTxn)) {
	wtxn := e.db.WriteTxn(e.wishes)
	write(wtxn)
	wtxn.Commit()
	synctest.Wait()
}

func (e *env) put(wishes ...*wish) {
	e.write(func(wtxn statedb.WriteTxn) { e.insert(wtxn, wishes...) })
}

func (e *env) insert(wtxn statedb.WriteTxn, wishes ...*wish) {
	for _, w := range wishes {
		_, _, err := e.wishes.Insert(wtxn, w)
		require.NoError(e, err)
	}
}

func (e *env) remove(names ...string) {
	e.write(func(wtxn statedb.WriteTxn) { e.delete(wtxn, names...) })
}

func (e *env) delete(wtxn statedb.WriteTxn, names ...string) {
	for _, name := range names {
		_, _, err := e.wishes.Delete(wtxn, &wish{Name: name})
		require.NoError(e, err)
	}
}

// other writes rows of the output that nothing derives.
func (e *env) other(rows ...*route) {
	harness.Insert(e, e.db, e.routes, rows...)
	synctest.Wait()
}

// at returns the row of the output at a place; nil if there is none.
func (e *env) at(place string) *route {
	row, _, _ := e.routes.Get(e.db.ReadTxn(), byPlace.Query(place))
	return row
}

// has requires the output to be these rows: "place<-wish".
func (e *env) has(want ...string) {
	e.Helper()
	require.Equal(e, append([]string{}, want...), e.contents())
}

func (e *env) contents() []string {
	got := []string{}
	for r := range e.routes.All(e.db.ReadTxn()) {
		got = append(got, r.Place+"<-"+r.From)
	}
	slices.Sort(got)
	return got
}

func (e *env) revision() statedb.Revision { return e.routes.Revision(e.db.ReadTxn()) }

func (e *env) initialized() bool {
	ok, _ := e.routes.Initialized(e.db.ReadTxn())
	return ok
}

// published returns the row of the input in the table of inputs.
func (e *env) published() inputs.Input {
	table, err := inputs.Open(e.db, "routes")
	require.NoError(e, err)
	row, found := table.Get(e.db.ReadTxn(), "wishes")
	require.True(e, found)
	return *row
}

// healthy requires the health of the derivation to be OK, or to have all of the texts.
func (e *env) healthy(texts ...string) {
	e.Helper()
	level, message, err := e.health.Scope("derive-routes").Now()
	if len(texts) == 0 {
		require.Equal(e, cell.StatusOK, level, "%s: %v", message, err)
		return
	}
	require.Equal(e, cell.StatusDegraded, level, message)
	for _, text := range texts {
		require.ErrorContains(e, err, text)
	}
}
