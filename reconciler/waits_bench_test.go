// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"iter"
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// idle is a target whose operations succeed at once.
type idle struct{}

func (idle) Update(context.Context, statedb.ReadTxn, statedb.Revision, *object) error { return nil }
func (idle) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *object) error { return nil }
func (idle) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*object, statedb.Revision]) error {
	return nil
}

// BenchmarkRoundsBesideWaiters measures the cost of writing an object and having it reconciled,
// while other goroutines wait for events that do not come. A transaction has the objects of one
// round.
func BenchmarkRoundsBesideWaiters(b *testing.B) {
	const waiters, perRound = 10_000, 1000
	type loop = *reconciler.Loop[*object]
	for _, c := range []struct {
		name string
		wait func(ctx context.Context, loop loop, i uint64)
	}{
		{"none", nil},
		{"revisions", func(ctx context.Context, loop loop, i uint64) {
			_, _ = loop.Wait(ctx, 1<<40, reconciler.Milestone(i%2))
		}},
		{"rows", func(ctx context.Context, loop loop, i uint64) {
			_, _ = loop.WaitFor(ctx, reconciler.Milestone(i%2), &object{ID: 1 << 40})
		}},
		{"deletions", func(ctx context.Context, loop loop, i uint64) {
			_, _ = loop.WaitFor(ctx, reconciler.Applied, &object{ID: 1<<41 + i})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := statedb.New()
			require.NoError(b, db.Start())
			defer func() { require.NoError(b, db.Stop()) }()
			table, err := statedb.NewTable(db, "objects", idIndex)
			require.NoError(b, err)
			l, err := reconciler.New(reconciler.Config[*object]{
				DB: db, Table: table, Operations: &waitedFor{}, Clone: (*object).Clone,
				SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
				Options: []reconciler.Option{reconciler.WithoutPruning(), reconciler.WithRefreshing(0, nil)},
			})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			write := func(ids []uint64) {
				wtxn := db.WriteTxn(table)
				for _, id := range ids {
					_, _, err := table.Insert(wtxn, &object{ID: id, Status: reconciler.StatusPending()})
					require.NoError(b, err)
				}
				revision := table.Revision(wtxn.Commit())
				_, _, err := l.WaitUntilReconciled(ctx, revision)
				require.NoError(b, err)
			}
			gone := make(chan struct{})
			if c.wait != nil {
				// The objects of some of the waits stay unreconciled during the benchmark.
				write(ids(1<<41, 1<<41+waiters))
				wtxn := db.WriteTxn(table)
				for i := range uint64(waiters) {
					_, _, _ = table.Delete(wtxn, &object{ID: 1<<41 + i})
				}
				_, _, _ = table.Insert(wtxn, &object{ID: 1 << 40, Status: reconciler.StatusPending()})
				revision := table.Revision(wtxn.Commit())
				_, _, err := l.WaitUntilReconciled(ctx, revision)
				require.NoError(b, err)
				for i := range uint64(waiters) {
					go func() {
						c.wait(ctx, l, i)
						gone <- struct{}{}
					}()
				}
			}
			n := uint64(0)
			for b.Loop() {
				write(ids(n%100_000+1, n%100_000+perRound))
				n += perRound
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/object")
			stop()
			require.NoError(b, <-ended)
			for range waiters {
				if c.wait != nil {
					<-gone
				}
			}
		})
	}
}

// waitedFor is a target that blocks the objects of the waits; other updates succeed.
type waitedFor struct{ idle }

func (waitedFor) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	if o.ID == 1<<40 {
		return reconciler.Blocked("a channel that never closes")
	}
	return nil
}

func (waitedFor) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	return reconciler.Blocked("a channel that never closes")
}
