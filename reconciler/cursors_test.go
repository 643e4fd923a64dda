// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// mainShare is the smallest part of the operations that the main cursor gets, whatever else is due: one
// in four.
const mainShare = 4

// writeEvery calls write at an interval for a total time.
func writeEvery(interval, total time.Duration, write func(i uint64)) {
	for i := range uint64(total / interval) {
		time.Sleep(interval)
		write(i)
	}
}

// notDone returns how many of the rows are not Done.
func (e *env) notDone(ids ...uint64) (n int) {
	txn := e.db.ReadTxn()
	for _, id := range ids {
		o, _, found := e.table.Get(txn, idIndex.Query(id))
		if !found || o.Status.Kind != reconciler.StatusKindDone {
			n++
		}
	}
	return n
}

// ready returns how many objects a snapshot has in its lanes.
func ready(s inspect.Snapshot) (n int) {
	for _, c := range s.Lanes {
		n += c.Count
	}
	return n
}

// If rows are written at twice the rate of the target for a minute, the reconciler holds at most a few
// rounds of objects, as at any other rate. The attempted watermark advances with the backlog.
func TestWritesBeyondTheTargetsRateCostNoMemory(t *testing.T) {
	const rows, took, round = 1000, 5 * time.Millisecond, 200
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(took)
				e.put(1, ids(1, rows)...)
				each := took / time.Duration(workers)
				const tenth = 1200 * time.Millisecond
				next, attempted := uint64(rows+1), uint64(0)
				for range 10 {
					writeEvery(each/2, tenth, func(uint64) { e.put(1, next); next++ })
					s := e.loop.Snapshot(e.Context())
					// Each of the six sources of work holds at most a round. Only three of them have
					// work here: what is due, the catch-up cursor and the main cursor.
					require.LessOrEqual(e, ready(s), 3*round, "objects in lanes")
					for _, c := range s.States {
						require.LessOrEqual(e, c.Count, 3*round, "objects that are %s", c.State)
					}
					// The main cursor has passed at least a quarter of the operations, except for a
					// round that is still in its lane.
					moved := uint64(tenth/each) / mainShare / 2
					require.GreaterOrEqual(e, s.Attempted, attempted+moved, "the attempted watermark, after %s", tenth)
					attempted = s.Attempted
				}
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil))
		})
	}
}

// Keys that are written all the time do not starve the others, even with one place in a round: the main
// cursor gets at least a quarter of the operations.
func TestColdRowsAreDoneBesideHotKeys(t *testing.T) {
	const rows, hot, took, workers = 401, 20, 5 * time.Millisecond, 2
	for _, size := range []int{1, 10} {
		for _, pace := range []time.Duration{2} {
			t.Run("round size "+strconv.Itoa(size)+", "+strconv.Itoa(int(pace))+" times the rate", func(t *testing.T) {
				inBubble(t, func(e *env) {
					e.target.takes(took)
					e.put(1, ids(1, rows)...)
					const each = took / workers
					bound := mainShare*rows*each + time.Second
					writeEvery(each/pace, bound, func(i uint64) { e.put(int(i), 1+i%hot) })
					require.Zero(e, e.notDone(ids(hot+1, rows)...), "undone cold rows of %d, after %s", rows-hot, bound)
					e.pass(time.Minute)
					e.eachDone()
				}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(size, nil))
			})
		}
	}
}

// The first search for orphans waits for the rows that were there at the start, and not for rows that are written
// later.
func TestOrphansAreFoundDespiteConstantWrites(t *testing.T) {
	const rows, took = 400, 5 * time.Millisecond
	synctestRun(t, func(e *env) {
		e.target.takes(took)
		e.target.strays(100_001)
		e.put(1, ids(1, rows)...)
		cfg := e.config(reconciler.WithRoundLimits(100, nil))
		cfg.Lister, cfg.OrphansOnly = &lister{target: e.target}, true
		e.start(cfg)
		// The bound is twice as long here: the main cursor must also pass what was written before the
		// listing. The deletion of the orphan has another second.
		writeEvery(took, 2*mainShare*rows*took+time.Second, func(i uint64) { e.put(1, rows+1+i) })
		require.NotContains(e, e.target.holds(), uint64(100_001), "an orphan")
		e.stop()
	})
}

// synctestRun runs a test in a bubble, without a loop.
func synctestRun(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) { test(newEnv(t)) })
}

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
	const round, rows = 20, 1000
	for _, workers := range []int{2} {
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
