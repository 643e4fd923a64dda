// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// BenchmarkRequests measures 200,000 distinct requests whose reconciler does nothing, from the
// change to the status. The requests come from the rows of a table, which is written before the
// timer starts, or from Add.
func BenchmarkRequests(b *testing.B) {
	const distinct = 200_000
	for _, from := range []string{"table", "added"} {
		for _, workers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s-%d", from, workers), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					benchmarkRound(b, from, distinct, workers)
				}
				b.ReportMetric(float64(distinct)*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			})
		}
	}
}

func benchmarkRound(b *testing.B, from string, distinct, workers int) {
	b.StopTimer()
	db := statedb.New()
	_ = db.Start()
	apps := statedb.MustNewTable(db, "apps", appIndex)
	added := make([]request.Request, 0, distinct)
	wtxn := db.WriteTxn(apps)
	for i := range distinct {
		if a := (&app{Namespace: "shop", Name: strconv.Itoa(i)}); from == "table" {
			_, _, _ = apps.Insert(wtxn, a)
		} else {
			added = append(added, a.request())
		}
	}
	wtxn.Commit()

	var left atomic.Int64
	left.Store(int64(distinct))
	done := make(chan struct{})
	c, err := request.New(request.Config[request.Request]{
		DB: db,
		Reconciler: request.Func[request.Request](func(context.Context, request.Request) (request.Result, error) {
			if left.Add(-1) == 0 {
				close(done)
			}
			return request.Result{}, nil
		}),
		Sources: []request.Source[request.Request]{request.For(apps, (*app).request)},
		Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers })},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)

	b.StartTimer()
	go func() { ended <- c.Run(ctx) }()
	c.Add(added...)
	<-done
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	_ = db.Stop()
	b.StartTimer()
}
