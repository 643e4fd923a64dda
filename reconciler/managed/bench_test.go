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
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// polled is a row of the benchmark.
type polled struct {
	managed.Meta
	Status reconciler.Status
}

func (p *polled) TableHeader() []string { return []string{"Name", "Status"} }
func (p *polled) TableRow() []string    { return []string{p.Name, p.Status.String()} }

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
	byName := statedb.Index[*polled, string]{
		Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(p *polled) index.KeySet { return index.NewKeySet(index.String(p.Name)) },
	}
	table := statedb.MustNewTable(db, "polled", byName)
	if err := db.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Stop() }()

	var observed atomic.Int64
	begun, ended := make(chan struct{}), make(chan struct{})
	observe := func(context.Context, *polled) (managed.ExternalObservation, error) {
		switch observed.Add(1) {
		case rows:
			close(begun)
		case rows + int64(b.N):
			close(ended)
		}
		return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, nil
	}
	client := managed.ExternalClientFns[*polled]{ObserveFn: observe}
	loop, err := newLoop(reconciler.Config[*polled]{
		DB: db, Table: table,
		Clone:     func(p *polled) *polled { c := *p; return &c },
		SetStatus: func(p *polled, s reconciler.Status) *polled { p.Status = s; return p },
		GetStatus: func(p *polled) reconciler.Status { return p.Status },
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
		},
	},
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*polled](func(context.Context, *polled) (managed.ExternalClient[*polled], error) {
			return client, nil
		})),
		managed.WithPollInterval(time.Microsecond))
	if err != nil {
		b.Fatal(err)
	}
	wtxn := db.WriteTxn(table)
	for i := range rows {
		row := &polled{Status: reconciler.StatusPending(), Meta: managed.Meta{
			Finalizers: []string{managed.FinalizerName}, Meta: object.Meta{Name: strconv.Itoa(i)},
		}}
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
