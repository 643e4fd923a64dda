// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// mainShare is the part of the operations that main has at the least, whatever else there
// is to do: one in so many.
const mainShare = 4

// writeEvery calls write again and again for a time.
func writeEvery(interval, total time.Duration, write func(i uint64)) {
	for i := range uint64(total / interval) {
		time.Sleep(interval)
		write(i)
	}
}

// notDone returns how many of the rows are not.
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

// A row of the backlog comes to its turn though a new row is written as often as the target
// can take one, or twice as often. Main has a quarter of the operations at the least: rows
// that take a time each are done within four times the time that all of them take.
func TestBacklogIsDoneWhateverIsWrittenMeanwhile(t *testing.T) {
	const rows, took = 2000, 5 * time.Millisecond
	for _, kind := range operationKinds[:2] {
		for _, workers := range []int{1, 2} {
			for _, pace := range []time.Duration{1, 2} {
				t.Run(fmt.Sprintf("%s, workers %d, %d times the rate", kind.name, workers, pace), func(t *testing.T) {
					inBubble(t, func(e *env) {
						e.target.takes(took)
						e.put(1, ids(1, rows)...)
						each := took / time.Duration(workers)
						bound := mainShare * rows * each
						writeEvery(each/pace, bound, func(i uint64) { e.put(1, rows+1+i) })
						require.Zero(e, e.notDone(ids(1, rows)...), "of %d old rows, after %s", rows, bound)
						fresh := 0
						for id := range e.target.holds() {
							if id > rows {
								fresh++
							}
						}
						// Nor does the backlog starve what is new: a quarter at the least.
						require.Greater(e, fresh, int(bound/each)/mainShare-100, "of the new rows")
					}, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(500, nil))
				})
			}
		}
	}
}

// With rows that are written at twice the rate of the target for a minute, what the
// reconciler has beside the table is a few rounds, as if they were written at any other, and
// the attempted watermark moves on with the backlog.
func TestWritesBeyondTheTargetsRateCostNoMemory(t *testing.T) {
	const rows, took, round = 5000, 5 * time.Millisecond, 1000
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("workers %d", workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(took)
				e.put(1, ids(1, rows)...)
				each := took / time.Duration(workers)
				const tenth = 6 * time.Second
				next, attempted := uint64(rows+1), uint64(0)
				for range 10 {
					writeEvery(each/2, tenth, func(uint64) { e.put(1, next); next++ })
					s := e.loop.Snapshot(e.Context())
					// Each source has its own places, a round at the most, and of the six
					// of them three have work at most: due, tip and main.
					require.LessOrEqual(e, ready(s), 3*round, "objects in lanes")
					for _, c := range s.States {
						require.LessOrEqual(e, c.Count, 3*round, "objects that are %s", c.State)
					}
					// Main has passed a quarter of the operations at the least, but for a
					// round that is in its queue.
					moved := uint64(tenth/each) / mainShare / 2
					require.GreaterOrEqual(e, s.Attempted, attempted+moved, "the watermark, in %s", tenth)
					attempted = s.Attempted
				}
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil))
		})
	}
}

// Whoever waits for the backlog is told when that is done, whatever is written meanwhile.
func TestWaitForABacklogEndsWhateverIsWrittenMeanwhile(t *testing.T) {
	const rows, took = 2000, 5 * time.Millisecond
	for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
		t.Run(m.String(), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(took)
				over := e.wait(e.put(1, ids(1, rows)...), m)
				bound := mainShare * rows * took
				writeEvery(took, bound, func(i uint64) { e.put(1, rows+1+i) })
				select {
				case w := <-over:
					e.nothingOwed(w)
				default:
					e.Fatalf("the wait goes on after %s", bound)
				}
			}, nil, reconciler.WithRoundLimits(500, nil))
		})
	}
}

// Keys that are written again and again do not keep the others from their turn, also if a
// round has one place: main has a quarter of the operations at the least.
func TestColdRowsAreDoneBesideHotKeys(t *testing.T) {
	const rows, hot, took, workers = 1901, 20, 5 * time.Millisecond, 2
	for _, size := range []int{1, 2, 10} {
		for _, pace := range []time.Duration{1, 2} {
			t.Run("round size "+strconv.Itoa(size)+", "+strconv.Itoa(int(pace))+" times the rate", func(t *testing.T) {
				inBubble(t, func(e *env) {
					e.target.takes(took)
					e.put(1, ids(1, rows)...)
					const each = took / workers
					bound := mainShare*rows*each + time.Second
					writeEvery(each/pace, bound, func(i uint64) { e.put(int(i), 1+i%hot) })
					require.Zero(e, e.notDone(ids(hot+1, rows)...), "of %d cold rows, after %s", rows-hot, bound)
					e.pass(time.Minute)
					e.eachDone()
				}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(size, nil))
			})
		}
	}
}

// The first sweep waits for what was there at the start, not for what is written for ever.
func TestFirstSweepComesWhateverIsWrittenMeanwhile(t *testing.T) {
	const rows, took = 2000, 5 * time.Millisecond
	synctestRun(t, func(e *env) {
		e.target.takes(took)
		e.target.strays(100_001)
		e.put(1, ids(1, rows)...)
		cfg := e.config(reconciler.WithRoundLimits(500, nil))
		cfg.Sweeper = &lister{target: e.target}
		e.start(cfg)
		// And as long again until main has passed what was written before the listing, and a
		// second for the deletion of what that found.
		writeEvery(took, 2*mainShare*rows*took+time.Second, func(i uint64) { e.put(1, rows+1+i) })
		require.NotContains(e, e.target.holds(), uint64(100_001), "nobody wants it")
		e.stop()
	})
}

// A wanted version that main passes is applied in the order of revisions of its key, also
// when the tip, a retry and main all come across it.
func TestOperationsOfAKeyNeverGoBackBehindABacklog(t *testing.T) {
	for _, workers := range []int{1, 2} {
		inBubble(t, func(e *env) {
			e.target.takes(2 * time.Millisecond)
			e.put(1, ids(1, 3000)...)
			writeEvery(3*time.Millisecond, 10*time.Second, func(i uint64) {
				id := 1 + (i*i*7)%3000
				if i%5 == 0 {
					e.remove(id)
				} else {
					e.put(int(i), id)
				}
			})
			e.pass(time.Minute)
			e.eachDone()
			last := map[uint64]statedb.Revision{}
			for _, c := range e.target.take() {
				require.GreaterOrEqual(e, c.revision, last[c.id], c.String())
				last[c.id] = c.revision
			}
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(100, nil))
	}
}

// synctestRun runs a test in a bubble, without a loop.
func synctestRun(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) { test(newEnv(t)) })
}
