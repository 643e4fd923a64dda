// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// load inserts loadSize objects, with the IDs from 1 on, in one transaction.
func (e *env) load() { e.put(1, ids(1, loadSize)...) }

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

func TestDeletionDoesNotWaitForALoad(t *testing.T) {
	behindALoad(t, func(e *env, n int) {
		// Deletions before the loop has found out that it is behind are part of the load.
		at := slices.DeleteFunc(moments(n), func(at time.Duration) bool { return at < 15*time.Millisecond })
		e.put(1, ids(loadSize+1, loadSize+uint64(len(at)))...)
		e.pass(10 * time.Second)
		e.target.take()
		start := time.Now()
		e.load()
		deleted := map[uint64]time.Time{}
		for i, at := range at {
			time.Sleep(time.Until(start.Add(at)))
			id := loadSize + 1 + uint64(i)
			e.remove(id)
			deleted[id] = time.Now()
		}
		e.pass(loadSize * time.Millisecond)
		e.eachDone()
		calls := e.target.take()
		require.Len(e, calls, loadSize+len(deleted), "each is applied once")
		for _, c := range calls {
			if c.op == "delete" {
				took := c.at.Sub(deleted[c.id])
				require.LessOrEqual(e, took, soon, "object %d, deleted after %s", c.id, deleted[c.id].Sub(start))
			}
		}
	})
}

// Released objects and due retries get a quarter of a round, so a few of them do not wait.
func TestReleasedAndDueObjectsDoNotWaitForALoad(t *testing.T) {
	behindALoad(t, func(e *env, n int) {
		const each = 10
		var mu sync.Mutex
		open, tried := map[uint64]chan struct{}{}, map[uint64][]time.Time{}
		blocked, failing := ids(loadSize+1, loadSize+each), ids(loadSize+each+1, loadSize+each+4)
		for _, id := range blocked {
			open[id] = make(chan struct{})
		}
		e.target.deciding(func(c call) error {
			mu.Lock()
			defer mu.Unlock()
			tried[c.id] = append(tried[c.id], time.Now())
			switch {
			case c.id > loadSize+each:
				return reconciler.RetryAfter(errPlain, 400*time.Millisecond)
			case c.id > loadSize && len(tried[c.id]) == 1:
				return reconciler.Blocked("the channel", open[c.id])
			}
			return nil
		})
		e.put(1, blocked...)
		e.put(1, failing...)
		e.pass(time.Second)

		e.load()
		released := map[uint64]time.Time{}
		start := time.Now()
		for _, id := range blocked {
			time.Sleep(100 * time.Millisecond)
			close(open[id])
			released[id] = time.Now()
		}
		e.pass(time.Second)
		e.doneSoon(start, released)
		mu.Lock()
		for _, id := range failing {
			for i := 1; i < len(tried[id]); i++ {
				require.LessOrEqual(e, tried[id][i].Sub(tried[id][i-1]), 400*time.Millisecond+soon, "retry %d of %d", i, id)
			}
		}
		mu.Unlock()
		e.target.failing("")
		e.pass(loadSize * time.Millisecond)
		e.eachDone()
	})
}

// rewrite writes a row as another reconciler does, with the same status for this one.
func (e *env) rewrite(id uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		o, _, _ := e.table.Get(wtxn, idIndex.Query(id))
		o = o.Clone().SetOther(reconciler.StatusDone())
		_, _, err := e.table.Insert(wtxn, o)
		require.NoError(e, err)
	})
}

// hookedTable calls hook after the loop has taken the transaction of a round and before main takes
// its snapshot. That simulates a pause of the goroutine between the two.
type hookedTable struct {
	statedb.RWTable[*object]
	hook *atomic.Pointer[func()]
}

func (t hookedTable) Changes(wtxn statedb.WriteTxn) (statedb.ChangeIterator[*object], error) {
	it, err := t.RWTable.Changes(wtxn)
	return hookedIterator{it, t.hook}, err
}

type hookedIterator struct {
	statedb.ChangeIterator[*object]
	hook *atomic.Pointer[func()]
}

func (i hookedIterator) Next(txn statedb.ReadTxn) (iter.Seq2[statedb.Change[*object], statedb.Revision], <-chan struct{}) {
	if f := i.hook.Swap(nil); f != nil {
		(*f)()
	}
	return i.ChangeIterator.Next(txn)
}

// A wait that begins between the transaction of a round and main's snapshot is for a revision after
// that snapshot. So it covers rows that are written again before the next snapshot.
func TestWaitBegunDuringASnapshotIsForTheNext(t *testing.T) {
	for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
		var hook atomic.Pointer[func()]
		inBubble(t, func(e *env) {
			e.target.takes(50 * time.Millisecond)
			var over <-chan waited
			began := make(chan struct{})
			f := func() {
				over = e.wait(e.put(1, 2), m)
				synctest.Wait()
				close(began)
			}
			hook.Store(&f)
			e.put(1, 1)
			time.Sleep(10 * time.Millisecond) // row 1 is in flight
			<-began
			e.put(1, ids(3, 10)...)
			e.rewrite(2)
			w := <-over
			require.NoError(e, w.err)
			require.Contains(e, e.target.holds(), uint64(2), "the row that the wait is for, after %s", w.took)
			e.pass(time.Minute)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			cfg.Table = hookedTable{cfg.Table.(statedb.RWTable[*object]), &hook}
		})
	}
}

// Main reads a snapshot in pieces: it ranges over the same sequence of changes again after a break.
// The comment of statedb's Next calls the sequence single-use, but v0.9.4 continues where it was
// left. This test fails if a later version does not.
func TestSequenceOfChangesContinuesAfterABreak(t *testing.T) {
	e := newEnv(t)
	wtxn := e.db.WriteTxn(e.table)
	changes, err := e.table.Changes(wtxn)
	require.NoError(t, err)
	wtxn.Commit()
	defer changes.Close()
	e.put(1, ids(1, 5)...)
	rest, _ := changes.Next(e.db.ReadTxn())
	e.put(1, 6)
	var read []uint64
	for range 3 {
		for change := range rest {
			read = append(read, change.Object.ID)
			if len(read)%2 == 0 {
				break
			}
		}
	}
	require.Equal(t, ids(1, 5), read, "the whole snapshot, and no later change")
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
