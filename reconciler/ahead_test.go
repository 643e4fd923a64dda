// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// pacedBatches is a target whose batch calls all take the same time, whatever their size.
type pacedBatches struct {
	batchTarget
	takes *atomic.Int64
}

func (p pacedBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	time.Sleep(time.Duration(p.takes.Load()))
	p.batchTarget.UpdateBatch(ctx, txn, batch)
}

// Fast batches are not queued by the thousand objects behind busy workers: a queued batch is already
// decided, and runs the versions that its objects had then. At most four batches a worker are in
// flight: the one that runs and three that are queued.
func TestFastBatchesAreNotQueuedFarAhead(t *testing.T) {
	const round, rows = 100, 5000
	for _, workers := range []int{2, 4} {
		t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
			var takes atomic.Int64
			inBubble(t, func(e *env) {
				takes.Store(int64(50 * time.Microsecond))
				for value := range 20 {
					e.put(value, ids(1, rows)...)
					e.pass(time.Second)
				}
				e.eachDone()
				e.target.take()
				takes.Store(int64(time.Second))
				e.put(100, ids(1, rows)...)
				for range 5 {
					e.pass(500 * time.Millisecond)
					n := e.inFlight()
					require.Positive(e, n)
					require.LessOrEqual(e, n, workers*4*round, "objects that run on workers or are queued for them")
				}
				e.pass(2 * time.Minute)
				e.eachDone()
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.BatchOperations = pacedBatches{batchTarget{e.target}, &takes}
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil))
		})
	}
}

// inFlight returns how many objects are in flight.
func (e *env) inFlight() int {
	for _, c := range e.loop.Snapshot(e.Context()).States {
		if c.State == "in flight" {
			return c.Count
		}
	}
	e.Fatal(`the snapshot has no state "in flight"`)
	return 0
}
