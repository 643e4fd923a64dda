// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// BenchmarkPoll measures a poll that finds nothing to do, including the work of the loop. The rows are
// polled as often as possible, and nothing changes in them.
func BenchmarkPoll(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers-%d", workers), func(b *testing.B) { benchmarkPoll(b, workers) })
	}
}

func benchmarkPoll(b *testing.B, workers int) {
	const rows = 20_000
	db := statedb.New()
	table := statedb.MustNewTable(db, "polled", byName)
	if err := db.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Stop() }()

	var observed atomic.Int64
	begun, ended := make(chan struct{}), make(chan struct{})
	observe := func(context.Context, *bucket) (managed.ExternalObservation, error) {
		switch observed.Add(1) {
		case rows:
			close(begun)
		case rows + int64(b.N):
			close(ended)
		}
		return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, nil
	}
	client := managed.ExternalClientFns[*bucket]{ObserveFn: observe}
	cfg, err := managed.Configure(reconciler.Config[*bucket]{
		DB: db, Table: table,
		Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
		},
	},
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
			return client, nil
		})),
		managed.WithPollInterval(time.Microsecond))
	if err != nil {
		b.Fatal(err)
	}
	loop, err := reconciler.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	wtxn := db.WriteTxn(table)
	for i := range rows {
		row := named(strconv.Itoa(i)).SetStatus(reconciler.StatusPending())
		row.Finalizers = []string{managed.FinalizerName}
		managed.SetExternalName(row, row.Name)
		row.SetConditions(managed.Available(), synced)
		_, _, _ = table.Insert(wtxn, row)
	}
	wtxn.Commit()

	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- loop.Run(ctx) }()
	<-begun
	before := table.Revision(db.ReadTxn())
	b.ReportAllocs()
	b.ResetTimer()
	<-ended
	b.StopTimer()
	after := table.Revision(db.ReadTxn())
	cancel()
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	// The loop may still be writing the statuses of the first pass.
	if after > before+rows {
		b.Fatalf("polls wrote %d times", after-before)
	}
}
