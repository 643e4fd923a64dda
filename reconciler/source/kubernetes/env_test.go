// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a row of an object, whose name it has.
type row struct{ Key, Value, Object string }

func (*row) TableHeader() []string { return []string{"Key", "Value", "Object"} }
func (r *row) TableRow() []string  { return []string{r.Key, r.Value, r.Object} }

// The Reflector looks at run time which of these a store is.
var (
	_ cache.TransformingStore      = store[object, any]{}
	_ cache.ReflectorBookmarkStore = store[object, any]{}
)

type fakeSource = Source[*corev1.ConfigMap, *row]
type fakeConfig = Config[*corev1.ConfigMap, *row]

// rowsOf makes the rows of an object: those that its data names, as in "a=1,b=2".
func rowsOf(o *corev1.ConfigMap) (rows []*row, err error) {
	switch o.Data["rows"] {
	case "":
		return nil, nil
	case "panic":
		panic("no")
	}
	for _, text := range strings.Split(o.Data["rows"], ",") {
		key, value, is := strings.Cut(text, "=")
		if !is {
			return nil, fmt.Errorf("%q has no =", text)
		}
		rows = append(rows, &row{key, value, o.Name})
	}
	return rows, nil
}

// env is a table that a source fills from a fakeServer, with virtual time.
type env struct {
	*testing.T
	server *fakeServer
	db     *statedb.DB
	table  statedb.RWTable[*row]
	sink   *source.Sink[*row]
	health *reconcilertest.Health
	log    *testlog.Buffer
	source *fakeSource
	stop   func()
}

// run runs a test in a bubble, with a source that runs. prepare changes its configuration, and that of the server; nil
// changes nothing.
func run(t *testing.T, prepare func(*env, *fakeConfig, *source.Config[*row]), test func(*env)) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, prepare)
		e.start()
		test(e)
		e.stop()
		e.sink.Close()
	})
}

func newEnv(t *testing.T, prepare func(*env, *fakeConfig, *source.Config[*row])) *env {
	e := &env{T: t, server: newFakeServer("one"), db: statedb.New(), health: &reconcilertest.Health{}, log: &testlog.Buffer{}}
	var err error
	e.table, err = statedb.NewTable(e.db, "rows", statedb.Index[*row, string]{
		Name: "key", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(r *row) index.KeySet {
			if r.Key == "keyless" {
				return index.EmptyKeySet
			}
			return index.NewKeySet(index.String(r.Key))
		},
	})
	require.NoError(e, err)
	log := slog.New(slog.NewTextHandler(e.log, nil))
	to := source.Config[*row]{Name: "kubernetes", DB: e.db, Table: e.table, Health: e.health, Log: log}
	cfg := fakeConfig{Rows: rowsOf, Backoff: time.Second}
	if prepare != nil {
		prepare(e, &cfg, &to)
	}
	e.sink, err = source.New(to)
	require.NoError(e, err)
	cfg.Sink = e.sink
	cfg, err = cfg.complete()
	require.EqualError(e, err, "Config.Server is nil", "the fake one")
	cfg.Resource = "configmaps"
	e.source = newSource(cfg, e.server)
	return e
}

func (e *env) start() {
	e.stop = reconcilertest.Go(e, e.source.Run)
	synctest.Wait()
}

// rows returns the rows as "key=value", in order.
func (e *env) rows() (rows []string) {
	for r := range e.table.All(e.db.ReadTxn()) {
		rows = append(rows, r.Key+"="+r.Value)
	}
	return rows
}

// requireRows waits until all is done that needs no time, and compares the rows.
func (e *env) requireRows(rows ...string) {
	e.Helper()
	synctest.Wait()
	require.Equal(e, slices.Sorted(slices.Values(rows)), e.rows())
}

// pass lets time pass.
func (e *env) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// beCalm lets the time pass after which a hold ends, and then sends a bookmark.
func (e *env) beCalm() {
	e.pass(calm)
	e.server.bookmark()
	synctest.Wait()
}

// revision is that of the table: it changes with every write.
func (e *env) revision() statedb.Revision { return e.table.Revision(e.db.ReadTxn()) }

// input is the row of the source in the table of inputs.
func (e *env) input() *inputs.Input {
	table, err := inputs.Open(e.db, "rows")
	require.NoError(e, err)
	row, _ := table.Get(e.db.ReadTxn(), "kubernetes")
	return row
}

// model returns the rows that the objects of the server want.
func (e *env) model() []string {
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	all := map[string]string{}
	objects := slices.Collect(maps.Values(e.server.objects))
	slices.SortFunc(objects, func(a, b *corev1.ConfigMap) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, o := range objects {
		rows, _ := rowsOf(o)
		for _, r := range rows {
			if _, taken := all[r.Key]; !taken {
				all[r.Key] = r.Value
			}
		}
	}
	rows := []string{}
	for key, value := range all {
		rows = append(rows, key+"="+value)
	}
	slices.Sort(rows)
	return rows
}
