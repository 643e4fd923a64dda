// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/kubernetes"
)

// row is a row of an object.
type row struct{ Key, Value string }

// follower is a table that a source fills from a kind.
type follower struct {
	testing.TB
	db     *statedb.DB
	table  statedb.RWTable[*row]
	sink   *source.Sink[*row]
	health *reconcilertest.Health
	log    *testlog.Buffer
	source interface{ Run(context.Context) error }
	stop   func()
}

// backoff is that of sources in tests: they need not spare their server.
const backoff = 20 * time.Millisecond

// follow runs a source of a kind. prepare changes its configuration; nil changes nothing.
func follow[Kind interface {
	runtime.Object
	metav1.Object
}](t testing.TB, server *rest.Config, namespace string, rows func(Kind) ([]*row, error),
	prepare func(*kubernetes.Config[Kind, *row], *source.Config[*row]),
) *follower {
	f := &follower{TB: t, db: statedb.New(), health: &reconcilertest.Health{}, log: &testlog.Buffer{}}
	var err error
	f.table, err = statedb.NewTableAny(f.db, "rows", nil, nil, statedb.Index[*row, string]{
		Name: "key", Unique: true, FromKey: index.String,
		FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
	})
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(f.log, nil))
	to := source.Config[*row]{Name: "kubernetes", DB: f.db, Table: f.table, Health: f.health, Log: log}
	cfg := kubernetes.Config[Kind, *row]{Server: server, Namespace: namespace, Rows: rows, Backoff: backoff, Log: log}
	if prepare != nil {
		prepare(&cfg, &to)
	}
	f.sink, err = source.New(to)
	require.NoError(t, err)
	t.Cleanup(f.sink.Close)
	cfg.Sink = f.sink
	f.source, err = kubernetes.New(cfg)
	require.NoError(t, err)
	f.start()
	return f
}

func (f *follower) start() { f.stop = reconcilertest.Go(f.TB, f.source.Run) }

// followMaps runs a source of the ConfigMaps of a namespace, each of which has the rows that its data names.
func followMaps(t testing.TB, server *rest.Config, namespace string) *follower {
	return follow(t, server, namespace, rowsOf, nil)
}

func rowsOf(o *corev1.ConfigMap) (rows []*row, err error) {
	if o.Data["panic"] != "" {
		panic("no")
	}
	for key, value := range o.Data {
		rows = append(rows, &row{o.Name + "/" + key, value})
	}
	return rows, nil
}

// rows returns the rows as "key=value", in order.
func (f *follower) rows() (rows []string) {
	for r := range f.table.All(f.db.ReadTxn()) {
		rows = append(rows, r.Key+"="+r.Value)
	}
	return rows
}

// requireRows waits until the table has these rows.
func (f *follower) requireRows(rows ...string) {
	f.Helper()
	want := slices.Sorted(slices.Values(rows))
	eventually(f, func() bool { return slices.Equal(want, f.rows()) }, "%s: %s, state %+v\n%s", want, f.rows(), f.sink.State(), f.log)
}

// requireAway waits until the source is not connected, for a reason.
func (f *follower) requireAway(why string) {
	f.Helper()
	eventually(f, func() bool {
		state := f.sink.State()
		return !state.Connected && state.Err != nil && strings.Contains(state.Err.Error(), why)
	}, "away because of %q: %+v", why, f.sink.State())
}

func (f *follower) revision() statedb.Revision { return f.table.Revision(f.db.ReadTxn()) }

func (f *follower) input() *inputs.Input {
	table, err := inputs.Open(f.db, "rows")
	require.NoError(f, err)
	row, _ := table.Get(f.db.ReadTxn(), "kubernetes")
	return row
}

// loaded waits until the table has what the server has now.
func (f *follower) loaded() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f.sink.Loaded(ctx)
}

// maps are the ConfigMaps of a namespace, as an administrator writes them.
type configMaps struct {
	testing.TB
	client typedv1.ConfigMapInterface
}

func mapsOf(t testing.TB, client *clientset.Clientset, namespace string) configMaps {
	return configMaps{t, client.CoreV1().ConfigMaps(namespace)}
}

// put makes or changes a ConfigMap: its data is given as "key=value".
func (m configMaps) put(name string, data ...string) {
	m.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for _, text := range data {
		key, value, _ := strings.Cut(text, "=")
		o.Data[key] = value
	}
	_, err := m.client.Update(context.Background(), o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = m.client.Create(context.Background(), o, metav1.CreateOptions{})
	}
	require.NoError(m, err)
}

func (m configMaps) remove(name string) {
	m.Helper()
	if err := m.client.Delete(context.Background(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(m, err)
	}
}

// rows returns the rows that the ConfigMaps want.
func (m configMaps) rows() (rows []string) {
	list, err := m.client.List(context.Background(), metav1.ListOptions{})
	require.NoError(m, err)
	for _, o := range list.Items {
		for _, key := range slices.Sorted(maps.Keys(o.Data)) {
			rows = append(rows, fmt.Sprintf("%s/%s=%s", o.Name, key, o.Data[key]))
		}
	}
	slices.Sort(rows)
	return rows
}

// followed waits until the table is as the ConfigMaps are.
func (m configMaps) followed(f *follower) {
	m.Helper()
	eventually(f, func() bool { return slices.Equal(m.rows(), f.rows()) }, "%s: %s, state %+v\n%s", m.rows(), f.rows(), f.sink.State(), f.log)
}
