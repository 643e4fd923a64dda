// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// loadSize is the number of objects of a load; at a millisecond each they take 5 s.
const loadSize = 5000

// soon bounds the time that a new change may wait behind a load.
const soon = 50 * time.Millisecond

// behindALoad runs a test against a loop with 1 and with 4 workers. Its target takes a millisecond
// for each object. The test calls load itself, after its preparations.
func behindALoad(t *testing.T, test func(e *env, n int), options ...reconciler.Option) {
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers %d", n), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(time.Millisecond)
				test(e, n)
			}, nil, append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}, options...)...)
		})
	}
}

// moments returns times during a load, counted from its start. They are dense at first.
func moments(workers int) (at []time.Duration) {
	end := loadSize * time.Millisecond / time.Duration(workers)
	for d := 100 * time.Microsecond; d < end; d += max(2700*time.Microsecond, d/8) {
		at = append(at, d)
	}
	return at
}

// trickle inserts an object at each of the times, counted from start. It returns when it inserted
// each object.
func (e *env) trickle(start time.Time, at []time.Duration) map[uint64]time.Time {
	written := map[uint64]time.Time{}
	for i, at := range at {
		time.Sleep(time.Until(start.Add(at)))
		id := loadSize + 1 + uint64(i)
		e.put(1, id)
		written[id] = time.Now()
	}
	return written
}

func (e *env) doneSoon(start time.Time, written map[uint64]time.Time) {
	e.Helper()
	for id, at := range written {
		took := e.get(id).Status.UpdatedAt.Sub(at)
		require.LessOrEqual(e, took, soon, "object %d, written after %s", id, at.Sub(start))
	}
}

// A load that comes in many transactions is still a load: a later change overtakes it.
func TestNewObjectDoesNotWaitForALoad(t *testing.T) {
	for _, transactions := range []int{1, 50, 500} {
		t.Run(fmt.Sprintf("%d transactions", transactions), func(t *testing.T) {
			behindALoad(t, func(e *env, n int) {
				size := loadSize / transactions
				for i := range transactions {
					e.put(1, ids(uint64(i*size+1), uint64((i+1)*size))...)
					if transactions > 1 {
						time.Sleep(time.Second / 8 / time.Duration(transactions))
					}
				}
				if transactions > 1 {
					e.pass(2 * soon) // until the loop has found out that it is behind
				}
				start := time.Now()
				written := e.trickle(start, moments(n))
				e.pass(loadSize * time.Millisecond)
				e.eachDone()
				require.Len(e, e.target.take(), loadSize+len(written), "each is applied once")
				e.doneSoon(start, written)
			})
		})
	}
}

// untilDone writes a row at an interval, each row once, and returns how long each took to be shown as Done.
func (e *env) untilDone(interval time.Duration, rows ...uint64) (took []time.Duration) {
	const look = 5 * time.Millisecond
	written := map[uint64]time.Time{}
	for began := time.Now(); len(rows)+len(written) > 0; time.Sleep(look) {
		if len(rows) > 0 && time.Since(began) >= interval {
			e.put(1, rows[0])
			began = time.Now()
			written[rows[0]], rows = began, rows[1:]
		}
		txn := e.db.ReadTxn()
		for id, at := range written {
			if s, _ := e.loop.Status(txn, &object{ID: id}); s.Kind == reconciler.StatusKindDone {
				took = append(took, time.Since(at))
				delete(written, id)
			}
		}
	}
	slices.Sort(took)
	return took
}

// A burst in a long backlog holds up the rows that are written after it for as long as it takes itself, at
// half of the target's rate; then they are shown as Done within 50 ms, long before the backlog is.
func TestRowsAfterABurstAreSoonShownDone(t *testing.T) {
	const backlog, burst, samples = 20_000, 8000, 60
	for name, change := range map[string]func(e *env, cfg *reconciler.Config[*object]){"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(100 * time.Microsecond)
				e.put(1, ids(1, backlog)...)
				time.Sleep(100 * time.Millisecond)
				const some = 20
				writeEvery(time.Millisecond, burst/some*time.Millisecond, func(i uint64) {
					e.put(1, ids(backlog+1+some*i, backlog+some*(i+1))...)
				})
				took := e.untilDone(20*time.Millisecond, ids(backlog+burst+1, backlog+burst+samples)...)
				late, _ := slices.BinarySearch(took, time.Second)
				require.LessOrEqual(e, samples-late, 3, "rows that took more than a second: %s", took)
				took = e.untilDone(20*time.Millisecond, ids(backlog+burst+samples+1, backlog+burst+2*samples)...)
				require.LessOrEqual(e, took[samples*95/100], 50*time.Millisecond, "%s", took)
			}, change)
		})
	}
}

// A row that is written more often than its turn comes runs nevertheless, also while the target cannot keep up:
// its turn comes at least once in two laps over the table.
func TestHotRowRunsOnceALapUnderOverload(t *testing.T) {
	const rows, laps, each = 1000, 6, 100 * time.Microsecond
	for name, change := range map[string]func(e *env, cfg *reconciler.Config[*object]){"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(each)
				e.put(1, ids(1, rows)...)
				e.target.take()
				const lap = rows
				value := 2
				// Five rows in the time of four operations, and the hot one ten times a lap.
				writeEvery(4*each, laps*lap*each, func(i uint64) {
					for j := range uint64(5) {
						e.put(value, 2+(5*i+j)*7%(rows-1))
					}
					if i%(lap/40) == 0 {
						e.put(value, 1)
					}
					value++
				})
				last, longest := 0, 0
				calls := e.target.take()
				for at, c := range calls {
					if c.id == 1 {
						last, longest = at, max(longest, at-last)
					}
				}
				require.Greater(e, len(calls), (laps-1)*lap, "operations")
				require.LessOrEqual(e, max(longest, len(calls)-last), 2*lap, "operations without the hot row")
			}, change)
		})
	}
}

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

// byRemainder puts objects into a group whose IDs leave the same remainder.
func byRemainder(n uint64) func(*object) string {
	return func(o *object) string { return strconv.FormatUint(o.ID%n, 10) }
}

func TestBatchHoldsAtMostOneObjectOfAGroup(t *testing.T) {
	withWorkersAnd(t, []int{1, 4}, serially(byRemainder(7)), func(e *env, _ int) {
		e.put(1, ids(1, 300)...)
		e.pass(time.Minute)
		e.eachDone()
		batches := map[int]map[uint64]bool{}
		for _, c := range e.target.take() {
			if c.batch == 0 {
				continue
			}
			if batches[c.batch] == nil {
				batches[c.batch] = map[uint64]bool{}
			}
			require.False(e, batches[c.batch][c.id%7], "two of a group in batch %d", c.batch)
			batches[c.batch][c.id%7] = true
		}
	})
}
