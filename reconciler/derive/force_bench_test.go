// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package derive_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// BenchmarkChangeOfAChain changes one endpoint of 10,000 services after the other and waits until the service is applied,
// in the shape of example/services: a join, and a loop beside its table. cpu-us/op is the CPU time of the whole process.
// The difference between "registry" and "none" is what it costs that somebody may ask; "asked" asks for each change.
func BenchmarkChangeOfAChain(b *testing.B) {
	for _, mode := range []string{"none", "registry", "asked"} {
		b.Run(mode, func(b *testing.B) { benchmarkChain(b, mode) })
	}
}

func benchmarkChain(b *testing.B, mode string) {
	const services = 10_000
	db := reconcilertest.NewDB(b)
	wishes, err := statedb.NewTable(db, "wishes", byName)
	require.NoError(b, err)
	byPodLabel := byLabel(new(atomic.Bool))
	pods, err := statedb.NewTable(db, "pods", byPodName, statedb.Indexer[*pod](byPodLabel))
	require.NoError(b, err)
	routes, err := statedb.NewTable(db, "routes", byPlace)
	require.NoError(b, err)
	var registry *inspect.Registry
	options := []reconciler.Option{}
	if mode != "none" {
		registry = &inspect.Registry{}
		options = append(options, reconciler.WithRegistry(registry))
	}
	label := derive.Lookup(pods.ToTable(), byPodLabel)
	d, err := derive.EachOf(derive.Config[*route]{DB: db, Registry: registry}, wishes.ToTable(), routes,
		func(r *derive.Reader, w *wish) ([]*route, error) {
			out := &route{Place: w.Name}
			for p := range label.List(r, w.Name) {
				out.From += " " + p.Addr
			}
			return []*route{out}, nil
		}, label)
	require.NoError(b, err)
	defer d.Close()
	loop, err := reconciler.New(reconciler.Config[*route]{
		DB: db, Table: routes, Operations: reconcilertest.NewTarget(func(r *route) string { return r.Place }, nil), Options: options,
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = loop.Run(ctx) })
	running.Go(func() { _ = d.Run(ctx) })
	defer running.Wait()
	defer cancel()
	name := func(i int) string { return fmt.Sprint("service-", i%services) }
	write := func(wtxn statedb.WriteTxn, i int) {
		_, _, err := pods.Insert(wtxn, &pod{"pod-" + name(i), name(i), fmt.Sprint("10.0.0.", i)})
		require.NoError(b, err)
	}
	wtxn := db.WriteTxn(wishes, pods)
	for i := range services {
		_, _, err := wishes.Insert(wtxn, &wish{Name: name(i)})
		require.NoError(b, err)
		write(wtxn, i)
	}
	wtxn.Commit()
	applied := func() {
		_, err := d.WaitAll(ctx, reconciler.Applied)
		require.NoError(b, err)
		_, err = loop.WaitAll(ctx, reconciler.Applied)
		require.NoError(b, err)
	}
	applied()
	began := cpu(b)
	for i := range b.N {
		wtxn := db.WriteTxn(pods)
		write(wtxn, i+services)
		wtxn.Commit()
		if mode != "asked" {
			applied()
			continue
		}
		_, err := registry.WaitInForce(ctx, "pods", "pod-"+name(i))
		require.NoError(b, err)
	}
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
}

func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
