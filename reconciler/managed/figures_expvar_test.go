// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"encoding/json"
	"expvar"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// tell passes figures of every kind to m.
func tell(m managed.Metrics, kind string) {
	m.FirstReconciled(kind, time.Second)
	m.FirstReady(kind, 2*time.Second)
	m.Deleted(kind, 4*time.Second)
	m.Drift(kind, 8*time.Second)
	is := managed.State{Known: true, Exists: true, Ready: true, Synced: true}
	m.Observed(kind, managed.State{}, is)
	m.Observed(kind, managed.State{}, is)
	m.Observed(kind, is, managed.State{Known: true, Exists: true})
}

const told = `{"bucket":{"objects":2,"existing":2,"ready":1,"synced":1,` +
	`"first_time_to_reconcile_seconds":{"count":1,"sum":1,"p50":1,"p99":1},` +
	`"first_time_to_readiness_seconds":{"count":1,"sum":2,"p50":2,"p99":2},` +
	`"deletion_seconds":{"count":1,"sum":4,"p50":4,"p99":4},` +
	`"drift_seconds":{"count":1,"sum":8,"p50":8,"p99":8}}}`

func TestExpvarShowsTheFigures(t *testing.T) {
	m := managed.NewUnpublishedExpVarMetrics()
	require.Equal(t, "{}", m.String())
	tell(m, "bucket")
	require.Equal(t, told, m.String())
	expvar.Do(func(kv expvar.KeyValue) { require.False(t, kv.Value == expvar.Var(m), "published as %q", kv.Key) })
}

func TestExpvarIsPublishedUnderTheGivenName(t *testing.T) {
	// expvar keeps its variables: use a name that only this run of the test has.
	name := fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())
	var wg sync.WaitGroup
	all := make([]*managed.ExpVarMetrics, 8)
	for i := range all {
		wg.Go(func() {
			m, err := managed.NewExpVarMetrics(name)
			if err == nil {
				all[i] = m
			}
		})
	}
	wg.Wait()
	for _, m := range all {
		require.NotNil(t, m)
		require.Same(t, all[0], m)
	}
	tell(all[0], "bucket")
	require.Equal(t, told, expvar.Get(name).String())

	expvar.NewInt(name + " taken")
	m, err := managed.NewExpVarMetrics(name + " taken")
	require.Nil(t, m)
	require.EqualError(t, err, fmt.Sprintf("expvar variable %q is already published as a *expvar.Int, want a *managed.ExpVarMetrics", name+" taken"))
}

func TestEmptyExpvarNameIsTheDefault(t *testing.T) {
	m, err := managed.NewExpVarMetrics("")
	require.NoError(t, err)
	require.Same(t, m, expvar.Get(managed.ExpVarName))
}

func TestJoinMetricsPassesEveryCallOn(t *testing.T) {
	one, two := managed.NewUnpublishedExpVarMetrics(), managed.NewUnpublishedExpVarMetrics()
	tell(managed.JoinMetrics(one, nil, two), "bucket")
	require.Equal(t, told, one.String())
	require.Equal(t, told, two.String())
	require.Same(t, one, managed.JoinMetrics(nil, one))
	tell(managed.JoinMetrics(), "bucket")
}

func TestForgottenKindStartsAtZero(t *testing.T) {
	var b managed.Book
	tell(&b, "bucket")
	tell(&b, "machine")
	b.Forget("bucket")
	b.Forget("none")
	require.Len(t, b.Figures(), 1)
	require.Equal(t, 2, b.Figures()["machine"].Objects)
	tell(&b, "bucket")
	require.Equal(t, 2, b.Figures()["bucket"].Objects)
}

func TestFiguresAreACopy(t *testing.T) {
	var b managed.Book
	tell(&b, "bucket")
	f := b.Figures()["bucket"]
	f.Drift.Buckets[0] = 100
	tell(&b, "bucket")
	require.EqualValues(t, 2, b.Figures()["bucket"].Drift.Buckets[0])
}

func TestFiguresMayBeRecordedAndReadConcurrently(t *testing.T) {
	m := managed.NewUnpublishedExpVarMetrics()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				tell(m, fmt.Sprint("kind ", i%2))
				if !json.Valid([]byte(m.String())) {
					t.Error("no JSON")
				}
			}
		})
	}
	wg.Wait()
	for kind, f := range m.Figures() {
		require.Equal(t, [4]int{800, 800, 400, 400}, [4]int{f.Objects, f.Existing, f.Ready, f.Synced}, kind)
		require.EqualValues(t, 400, f.Deletion.Count, kind)
	}
}

// BenchmarkBookObserved measures one change of an object's state.
func BenchmarkBookObserved(b *testing.B) {
	var book managed.Book
	is := managed.State{Known: true, Exists: true}
	b.ReportAllocs()
	for b.Loop() {
		book.Observed("bucket", managed.State{}, is)
		book.Observed("bucket", is, managed.State{})
	}
	if got := book.Figures()["bucket"].Objects; got != 0 {
		b.Fatal(got)
	}
}
