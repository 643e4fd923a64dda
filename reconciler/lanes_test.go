// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// loadSize is the number of objects of a load; at a millisecond each they take 20 s.
const loadSize = 20_000

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
	for d := 100 * time.Microsecond; d < 200*time.Millisecond; d += 1700 * time.Microsecond {
		at = append(at, d)
	}
	for d := 200 * time.Millisecond; d < end; d += 437 * time.Millisecond {
		at = append(at, d)
	}
	return at
}

func TestNewObjectDoesNotWaitForALoad(t *testing.T) {
	behindALoad(t, func(e *env, n int) {
		start := time.Now()
		e.load()
		written := e.trickle(start, moments(n))
		e.pass(loadSize * time.Millisecond)
		e.eachDone()
		require.Len(e, e.target.take(), loadSize+len(written), "each is applied once")
		e.doneSoon(start, written)
	})
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
func TestNewObjectOvertakesALoadOfManyTransactions(t *testing.T) {
	for _, transactions := range []int{10, 200, 2000} {
		t.Run(fmt.Sprintf("%d transactions", transactions), func(t *testing.T) {
			behindALoad(t, func(e *env, n int) {
				start := time.Now()
				size := loadSize / transactions
				for i := range transactions {
					e.put(1, ids(uint64(i*size+1), uint64((i+1)*size))...)
					time.Sleep(time.Second / 2 / time.Duration(transactions))
				}
				e.pass(soon)
				var at []time.Duration
				for d := 600 * time.Millisecond; d < loadSize*time.Millisecond/time.Duration(n); d += 137 * time.Millisecond {
					at = append(at, d)
				}
				written := e.trickle(start, at)
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
		const each = 40
		var open [each]chan struct{}
		var mu sync.Mutex
		for i := range open {
			open[i] = make(chan struct{})
		}
		failures := map[uint64][]time.Time{}
		e.target.deciding(func(c call) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.value == 2: // a retry
				failures[c.id] = append(failures[c.id], time.Now())
				return reconciler.RetryAfter(errors.New("not yet"), 400*time.Millisecond)
			case c.value == 3:
				select {
				case <-open[c.id-loadSize-1]:
				default:
					return reconciler.Blocked("the channel", open[c.id-loadSize-1])
				}
			}
			return nil
		})
		blocked := ids(loadSize+1, loadSize+each)
		e.put(3, blocked...)
		e.put(2, ids(loadSize+each+1, loadSize+each+4)...)
		e.pass(time.Second)

		e.load()
		released := map[uint64]time.Time{}
		start := time.Now()
		for i, id := range blocked {
			time.Sleep(100 * time.Millisecond)
			close(open[i])
			released[id] = time.Now()
		}
		e.pass(time.Second)
		e.doneSoon(start, released)
		mu.Lock()
		for id, at := range failures {
			for i := 1; i < len(at); i++ {
				require.LessOrEqual(e, at[i].Sub(at[i-1]), 400*time.Millisecond+soon, "retry %d of %d", i, id)
			}
		}
		require.Len(e, failures, 4)
		mu.Unlock()
		e.target.failing("")
		e.pass(loadSize * time.Millisecond)
		e.eachDone()
	})
}

// When there are no new changes, the backlog also gets their shares: its batches are whole rounds.
func TestBatchesOfALoadAreWholeRounds(t *testing.T) {
	for _, n := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.target.takes(time.Millisecond)
			e.put(1, ids(1, 10_000)...)
			e.pass(20 * time.Second)
			e.eachDone()
			sizes := map[int]int{}
			for _, c := range e.target.take() {
				sizes[c.batch]++
			}
			require.LessOrEqual(e, len(sizes), 10_000/100+n)
		}, operationKinds[1].change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n }), reconciler.WithRoundLimits(100, nil))
	}
}

// No change is lost when main overtakes the catch-up cursor. In the large table the
// backlog is done before the cursor has read its changes; small rounds leave the cursor no room.
func TestNoChangeIsLostWhenTheBacklogIsDoneFirst(t *testing.T) {
	t.Run("large table", func(t *testing.T) {
		inBubble(t, func(e *env) {
			e.put(1, ids(1, 60_000)...)
			e.pass(time.Second)
			e.target.takes(50 * time.Microsecond)
			e.put(2, ids(1, 2_400)...)
			e.pass(60 * time.Millisecond)
			e.put(3, ids(2_000, 3_000)...)
			e.pass(time.Minute)
			e.eachDone()
		}, operationKinds[1].change)
	})
	for _, size := range []int{1, 2, 5, 10} {
		t.Run(fmt.Sprintf("round size %d", size), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.taking(func(c call) time.Duration { return time.Duration(10+c.value%3) * time.Millisecond })
				for value := range 100 {
					e.put(value, ids(1, 20)...)
					time.Sleep(time.Duration(5+value%10) * time.Millisecond)
				}
				e.pass(5 * time.Second)
				e.eachDone()
			}, nil, reconciler.WithRoundLimits(size, nil))
		})
	}
}

// The catch-up cursor does not run deletions again that main read before the cursor began.
func TestDeletionsThatKeepComingAreRunOnce(t *testing.T) {
	const each, transactions = 400, 50
	behindALoad(t, func(e *env, n int) {
		// Deletions are fast at first, so that main advances, and then slow.
		var deletions atomic.Int64
		e.target.taking(func(c call) time.Duration {
			if deletions.Add(1) < 4000 {
				return 2 * time.Microsecond
			}
			return 200 * time.Microsecond
		})
		e.put(1, ids(1, each*transactions)...)
		e.pass(10 * time.Second)
		deletions.Store(0)
		e.target.take()
		for i := range uint64(transactions) {
			e.remove(ids(1+i*each, (i+1)*each)...)
			time.Sleep(time.Millisecond)
		}
		e.pass(10 * time.Second)
		e.eachDone()
		require.Len(e, e.target.take(), each*transactions)
	})
}
