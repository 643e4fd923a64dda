// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// Each test of this file checks a promise that statedb's reconciler was seen to break, in
// measurements or in reports of its users.

// With two reconcilers of one object, a retry of one may run while the other writes its status.
// That must neither leave the object in Error nor lose the retry.
func TestTwoReconcilersOfAnObjectDoNotStrandIt(t *testing.T) {
	for _, failures := range []int{1, 3} {
		for _, otherFailures := range []int{0, 2} {
			t.Run(fmt.Sprintf("%d and %d failures", failures, otherFailures), func(t *testing.T) {
				other := newTarget()
				inBubble(t, func(e *env) {
					cfg := e.config(reconciler.WithName("other"))
					cfg.Operations, cfg.SetStatus, cfg.GetStatus = other, (*object).SetOther, (*object).GetOther
					failFirst(e.target, failures, 30*time.Millisecond)
					failFirst(other, otherFailures, 20*time.Millisecond)
					e.start(cfg)
					e.put(1, ids(1, 20)...)
					e.pass(time.Minute)

					e.eachDone()
					for o := range e.table.All(e.db.ReadTxn()) {
						require.Equal(e, reconciler.StatusKindDone, o.Other.Kind, "%d: %s", o.ID, o.Other)
					}
					require.Len(e, e.target.take(), 20*(failures+1), "no attempt too many")
					require.Len(e, other.take(), 1+20*(otherFailures+1), "a prune, and no attempt too many")
				}, nil)
			})
		}
	}
}

// failFirst makes the first n calls for each object fail, and each call take some time. Prunes
// succeed.
func failFirst(x *target, n int, took time.Duration) {
	seen := map[uint64]int{}
	x.deciding(func(c call) error {
		if c.op == "prune" {
			return nil
		}
		if seen[c.id]++; seen[c.id] <= n {
			return errors.New("not yet")
		}
		return nil
	})
	x.before = func(context.Context, call) { time.Sleep(took) }
}

// A due retry runs however fast the table changes.
func TestDueRetryComesThroughASaturatedTable(t *testing.T) {
	for _, size := range []int{1, 10} {
		t.Run(fmt.Sprintf("round size %d", size), func(t *testing.T) {
			inBubble(t, func(e *env) {
				failFirst(e.target, 0, time.Millisecond)
				victimFailed := false
				e.target.deciding(func(c call) error {
					if c.id == 1 && !victimFailed {
						victimFailed = true
						return errors.New("once")
					}
					return nil
				})
				e.put(1, 1)
				e.pass(10 * time.Millisecond)
				require.Equal(e, reconciler.StatusKindError, e.kind(1))
				e.target.take()

				// Every object is written again long before its turn.
				for value := range 80 {
					e.put(value, ids(100, 300)...)
					time.Sleep(5 * time.Millisecond)
				}
				var at time.Time
				for i, c := range e.target.take() {
					if i == 0 {
						at = c.at
					}
					if c.id == 1 {
						require.Less(e, c.at.Sub(at), 100*time.Millisecond+3*time.Second/10, "after the retry was due")
						return
					}
				}
				e.Fatal("the retry did not come while the table changed")
			}, nil, reconciler.WithRoundLimits(size, nil))
		})
	}
}

// Failures that wait for a retry cost other objects nothing: a round reads the same number of
// objects, however many of them wait.
func TestWaitingFailuresAddNoCostToARound(t *testing.T) {
	reads := func(parked uint64) (n int64) {
		inBubble(t, func(e *env) {
			e.target.deciding(func(c call) error {
				if c.value < 0 {
					return errors.New("parked")
				}
				return nil
			})
			e.put(-1, ids(1000, 1000+parked)...)
			e.pass(10 * time.Second)
			counted.Store(0)
			for id := range ids(1, 50) {
				e.put(1, uint64(id))
				e.pass(time.Millisecond)
			}
			n = counted.Load()
		}, countReads, reconciler.WithRetry(time.Hour, time.Hour))
		return n
	}
	few := reads(1)
	require.Positive(t, few)
	require.Equal(t, few, reads(1000))
}

// counted is the number of times that the loop read an object: its status or its key, or to clone
// it.
var counted atomic.Int64

// countReads makes a loop count its reads of statuses and its clones. The keys are counted by
// keyOf.
func countReads(_ *env, cfg *reconciler.Config[*object]) {
	get, clone := cfg.GetStatus, cfg.Clone
	cfg.GetStatus = func(o *object) reconciler.Status { counted.Add(1); return get(o) }
	cfg.Clone = func(o *object) *object { counted.Add(1); return clone(o) }
}

// With a small burst a refresh still takes objects in batches, and keeps to the limit.
func TestRefreshKeepsToItsLimiter(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 200)...)
		synctest.Wait()
		e.target.take()
		start := time.Now().Add(time.Minute)
		rounds := len(e.loop.Rounds())
		e.pass(time.Minute + 3*time.Second)

		calls := e.target.take()
		require.Len(e, calls, 200)
		for i, c := range calls {
			require.True(e, c.refresh)
			earliest := time.Duration(i) * 10 * time.Millisecond
			require.GreaterOrEqual(e, c.at.Sub(start)+100*time.Millisecond, earliest, "refresh %d", i)
		}
		require.Greater(e, calls[199].at.Sub(start), 1800*time.Millisecond)
		require.Len(e, e.loop.Rounds()[rounds:], 20, "ten at a time")
	}, nil, reconciler.WithRefreshing(time.Minute, rate.NewLimiter(100, 1)))
}

// A failed prune stays in health until a prune succeeds, whatever else happens, and is retried with
// backoff.
func TestFailedPruneStaysInHealthUntilAPruneSucceeds(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.op == "prune" {
				return errors.New("target is busy")
			}
			return nil
		})
		e.loop.Prune()
		synctest.Wait()
		e.put(1, 1)
		synctest.Wait()
		level, message, err := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Equal(e, "1 error(s)", message)
		require.EqualError(e, err, "prune: target is busy")

		e.pass(time.Second)
		require.Equal(e, []string{
			"prune(0) fail", "update(1)", "prune(1) fail", "prune(1) fail", "prune(1) fail",
		}, e.target.calls(), "retried after 100, 200 and 400 ms")

		e.target.failing("")
		e.pass(time.Second)
		level, message, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, "OK, 1 object(s)", message)
		require.Equal(e, []string{"prune(1)"}, e.target.calls())
	}, nil)
}

// A failure with the same text writes nothing and wakes no watcher.
func TestUnchangedFailureWakesNoWatcher(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		_, watch := e.table.AllWatch(e.db.ReadTxn())
		revision := e.table.Revision(e.db.ReadTxn())
		e.pass(10 * time.Second)
		require.Greater(e, len(e.target.take()), 5, "it was retried")
		select {
		case <-watch:
			e.Fatal("the table changed")
		default:
		}

		e.target.failing("no longer the same")
		e.pass(time.Minute)
		require.Equal(e, revision+1, e.table.Revision(e.db.ReadTxn()), "the new text is written once")
		require.Equal(e, "no longer the same", e.get(1).Status.GetError())
	}, nil)
}

// An object that was inserted and deleted between two reads of the table may be in the target
// because of an earlier process. It is deleted from the target, once.
func TestShortLivedObjectIsDeletedFromTheTarget(t *testing.T) {
	for _, options := range [][]reconciler.Option{nil, {reconciler.WithoutPruning()}} {
		inBubble(t, func(e *env) {
			e.comeAndGo(1)
			synctest.Wait()
			require.Equal(e, []string{"delete(1)"}, e.target.calls())

			e.put(1, 1)
			synctest.Wait()
			e.comeAndGo(1)
			synctest.Wait()
			require.Equal(e, []string{"update(1)", "delete(1)"}, e.target.calls())
		}, nil, options...)
	}
}

// comeAndGo inserts an object and deletes it in one transaction.
func (e *env) comeAndGo(id uint64) {
	e.write(func(wtxn statedb.WriteTxn) {
		_, _, err := e.table.Insert(wtxn, &object{ID: id, Status: reconciler.StatusPending()})
		require.NoError(e, err)
		_, _, err = e.table.Delete(wtxn, &object{ID: id})
		require.NoError(e, err)
	})
}

func TestBlockedOutcomeThatIsLostLeavesNoWatcher(t *testing.T) {
	inBubble(t, func(e *env) {
		never := make(chan struct{})
		e.target.deciding(func(c call) error {
			if c.value == 1 {
				e.put(2, 1) // changed while the operation runs
				return reconciler.Blocked("device eth0", never)
			}
			return nil
		})
		e.put(1, 1)
		e.pass(time.Second)
		e.eachDone()
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 1 object(s)", message)
		e.remove(1)
		e.pass(time.Second)
		_, message, _ = e.health.Now()
		require.Equal(e, "OK, 0 object(s)", message)
	}, nil)
}

func TestBlockedOnAClosedChannelDoesNotSpin(t *testing.T) {
	inBubble(t, func(e *env) {
		closed := make(chan struct{})
		close(closed)
		var n atomic.Int64
		start := time.Now()
		e.target.deciding(func(c call) error {
			if n.Add(1) > 400 {
				return nil
			}
			return reconciler.Blocked("door", closed)
		})
		e.put(1, 1)
		for e.kind(1) != reconciler.StatusKindDone {
			e.pass(time.Millisecond)
		}
		require.Greater(e, time.Since(start), 200*time.Millisecond)
	}, nil)
}

type replaceTarget struct{ *target }

func (s replaceTarget) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
}
func (s replaceTarget) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
	for i := range b {
		b[i] = reconciler.BatchEntry[*object]{Object: b[i].Object, Revision: b[i].Revision, Result: nil}
	}
}

func TestReplacedBatchEntriesFail(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(time.Second)
		for id := range e.target.holds() {
			e.Fatalf("%d is in the target", id)
		}
		for _, id := range ids(1, 2) {
			require.Contains(e, e.get(id).Status.GetError(), "removed or replaced")
		}
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.BatchOperations = replaceTarget{e.target} })
}

func TestRunGoesOnUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		loop, err := reconciler.New(e.config(reconciler.WithRoundLimits(10, rate.NewLimiter(rate.Every(2*time.Second), 1))))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			for i := 0; ctx.Err() == nil; i++ {
				e.put(i, 1)
				time.Sleep(time.Second)
			}
		}()
		require.NoError(t, loop.Run(ctx))
		ended := ctx.Err()
		cancel()
		time.Sleep(2 * time.Second)
		require.Error(t, ended, "Run has returned before its context ended")
	})
}

type nilError struct{ text string }

func (n *nilError) Error() string { return n.text }

func TestRequeueAtOnceIsNoHotLoop(t *testing.T) {
	inBubble(t, func(e *env) {
		var n atomic.Int64
		start := time.Now()
		e.target.deciding(func(c call) error {
			if n.Add(1) > 2000 {
				return nil
			}
			return reconciler.Requeue(0)
		})
		e.put(1, 1)
		for n.Load() <= 2000 {
			e.pass(time.Millisecond)
		}
		e.Log(time.Since(start))
		require.Greater(e, time.Since(start), time.Second)
	}, nil, reconciler.WithRoundLimits(1, nil))
}
