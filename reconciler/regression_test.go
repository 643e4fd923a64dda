// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

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

func TestPruningIntervalWithoutEndIsNotDueAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		prunes := 0
		e.target.before = func(_ context.Context, c call) {
			time.Sleep(time.Millisecond) // ends later than time zero of the loop's clock, as in a real program
			if c.op == "prune" {
				prunes++
			}
		}
		e.loop.Prune()
		e.pass(time.Second)
		for i := range 10 {
			e.put(i, 1)
			e.pass(time.Second)
		}
		require.Equal(e, 1, prunes)
	}, nil, reconciler.WithPruning(math.MaxInt64))
}

func TestPruningIntervalWithoutEndKeepsNoRetryWaiting(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(context.Context, call) { time.Sleep(time.Millisecond) }
		var broken atomic.Bool
		broken.Store(true)
		e.target.deciding(func(c call) error {
			if c.op == "update" && broken.Load() {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, 1)
		e.loop.Prune()
		e.pass(10 * time.Millisecond)
		broken.Store(false)
		e.pass(time.Hour)
		e.eachDone()
	}, nil, reconciler.WithPruning(math.MaxInt64))
}

func TestDueRetryIsNotStarvedByOlderRetries(t *testing.T) {
	inBubble(t, func(e *env) {
		var broken atomic.Bool
		broken.Store(true)
		e.target.before = func(_ context.Context, c call) {
			if c.id < 4 {
				time.Sleep(200 * time.Millisecond) // hangs, as with a timeout
			}
		}
		e.target.deciding(func(c call) error {
			if c.id < 4 || broken.Load() {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, ids(1, 4)...)
		e.pass(2 * time.Second)
		broken.Store(false)
		e.pass(time.Minute)
		require.Equal(e, reconciler.StatusKindDone, e.kind(4))
	}, nil, reconciler.WithRetry(100*time.Millisecond, 100*time.Millisecond))
}

func TestDueRetryIsNotStarvedByOlderRetriesWithBackoff(t *testing.T) {
	inBubble(t, func(e *env) {
		var broken atomic.Bool
		broken.Store(true)
		e.target.before = func(_ context.Context, c call) {
			if c.id < 100 {
				time.Sleep(time.Second)
			}
		}
		e.target.deciding(func(c call) error {
			if c.id < 100 || broken.Load() {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, ids(1, 100)...)
		e.pass(200 * time.Second)
		broken.Store(false)
		e.pass(2 * time.Hour)
		require.Equal(e, reconciler.StatusKindDone, e.kind(100))
	}, nil)
}

type stopTarget struct {
	batchTarget
	inDelete chan struct{}
	updates  atomic.Int64
}

func (s *stopTarget) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
	close(s.inDelete)
	<-ctx.Done()
}
func (s *stopTarget) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
	if ctx.Err() != nil {
		s.updates.Add(1)
	}
}

func TestNoBatchStartsAfterStop(t *testing.T) {
	var s *stopTarget
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			e.table.Delete(wtxn, &object{ID: 1})
			e.table.Insert(wtxn, &object{ID: 2, Status: reconciler.StatusPending()})
		})
		<-s.inDelete
		e.stop()
		require.Zero(e, s.updates.Load(), "UpdateBatch started after the stop")
	}, func(e *env, cfg *reconciler.Config[*object]) {
		s = &stopTarget{batchTarget: batchTarget{e.target}, inDelete: make(chan struct{})}
		cfg.BatchOperations = s
	})
}

func TestBlockedOnAClosedChannelDoesNotSpin(t *testing.T) {
	inBubble(t, func(e *env) {
		closed := make(chan struct{})
		close(closed)
		var n atomic.Int64
		start := time.Now()
		e.target.deciding(func(c call) error {
			if n.Add(1) > 2000 {
				return nil
			}
			return reconciler.Blocked("door", closed)
		})
		e.put(1, 1)
		for e.kind(1) != reconciler.StatusKindDone {
			e.pass(time.Millisecond)
		}
		require.Greater(e, time.Since(start), time.Second)
	}, nil)
}

func TestFailedObjectThatIsUnsetIsLeftAlone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) { e.table.Insert(wtxn, &object{ID: 1, Value: 2}) })
		e.target.failing("")
		e.target.take()
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
		require.Equal(e, reconciler.StatusKindUnset, e.kind(1))
	}, nil)
}

func TestDeleteEndsForAnObjectReadInAFullRound(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("no")
			}
			if c.id == 2 {
				time.Sleep(200 * time.Millisecond) // until the deletion is due again
			}
			return nil
		})
		e.remove(1)
		synctest.Wait()
		e.put(1, 2)
		time.Sleep(50 * time.Millisecond)
		e.target.take()
		e.write(func(wtxn statedb.WriteTxn) {
			for id := range uint64(8) {
				e.table.Insert(wtxn, &object{ID: 10 + id, Value: 1, Status: reconciler.StatusPending()})
			}
			e.table.Insert(wtxn, &object{ID: 1, Value: 7, Status: reconciler.StatusDone()})
		})
		e.pass(time.Minute)
		require.NotContains(e, e.target.calls(), "update(1)")
	}, nil, reconciler.WithRoundLimits(2, nil))
}

type filterTarget struct{ *target }

func (s filterTarget) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
}
func (s filterTarget) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, b []reconciler.BatchEntry[*object]) {
	_ = slices.DeleteFunc(b, func(e reconciler.BatchEntry[*object]) bool { return e.Object.ID == 1 })
}

func TestBatchFilteredInPlaceDoesNotPanic(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(time.Second)
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.BatchOperations = filterTarget{e.target} })
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

func TestRunContinuesAfterTheLimiterWasClosed(t *testing.T) {
	limiter := rate.NewLimiter(1000, 1)
	inBubble(t, func(e *env) {
		limiter.SetBurst(0)
		e.put(1, 1)
		e.pass(time.Second)
		e.put(2, 1)
		e.pass(time.Second)
		limiter.SetBurst(1)
		e.put(3, 1)
		e.pass(time.Second)
		e.eachDone()
	}, nil, reconciler.WithRoundLimits(10, limiter))
}

func TestStatusInTheFutureDoesNotHoldUpRefreshes(t *testing.T) {
	inBubble(t, func(e *env) {
		e.write(func(wtxn statedb.WriteTxn) {
			s := reconciler.StatusDone()
			s.UpdatedAt = time.Now().Add(365 * 24 * time.Hour)
			e.table.Insert(wtxn, &object{ID: 1, Status: s})
		})
		e.put(1, 2)
		e.pass(time.Second)
		e.target.take()
		e.pass(3 * time.Hour)
		require.Contains(e, e.target.calls(), "refresh(2)")
	}, nil, reconciler.WithRefreshing(30*time.Minute, nil))
}

func TestHealthCountsObjectsBlockedWithoutAChannel(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error { return reconciler.Blocked("operator") })
		e.put(1, 1)
		synctest.Wait()
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 1 object(s), 1 blocked", message)
	}, nil)
}

func TestWaitEndsAfterATransactionThatLeavesNothing(t *testing.T) {
	for _, before := range []bool{false, true} {
		inBubble(t, func(e *env) {
			if before {
				e.put(1, 9)
				synctest.Wait()
			}
			rev := e.write(func(wtxn statedb.WriteTxn) {
				e.table.Insert(wtxn, &object{ID: 1, Status: reconciler.StatusPending()})
				e.table.Delete(wtxn, &object{ID: 1})
			})
			ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
			defer cancel()
			_, _, err := e.loop.WaitUntilReconciled(ctx, rev)
			require.NoError(e, err)
		}, nil)
	}
}

func TestMetricsFollowAGivenUpDelete(t *testing.T) {
	m := metrics.NewExpVar()
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.target.failing("no")
		e.remove(1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			e.table.Insert(wtxn, &object{ID: 1, Value: 7, Status: reconciler.StatusDone()})
		})
		e.pass(time.Minute)
		level, message, _ := e.health.Now()
		e.Log(level, message, m.ReconciliationCurrentErrorsVar)
		require.NotContains(e, m.ReconciliationCurrentErrorsVar.String(), ": 1")
	}, nil, reconciler.WithMetrics(m))
}

func TestErrorJoinedWithARequeueIsAFailure(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			return errors.Join(errors.New("disk full"), reconciler.Requeue(time.Hour))
		})
		e.put(1, 1)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.kind(1))
	}, nil)
}

func TestGivenUpDeletionLeavesNoWatcher(t *testing.T) {
	inBubble(t, func(e *env) {
		never := make(chan struct{})
		e.target.deciding(func(c call) error {
			if c.id == 1 {
				return reconciler.Blocked("door", never)
			}
			time.Sleep(time.Second)
			return nil
		})
		e.put(1, 1, 2, 3, 9)
		e.pass(10 * time.Second)
		e.remove(1)
		synctest.Wait() // the deletion is blocked as well
		e.write(func(wtxn statedb.WriteTxn) {
			e.table.Insert(wtxn, &object{ID: 1, Value: 7, Status: reconciler.StatusDone()})
		})
		e.pass(time.Minute)
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 4 object(s)", message)
	}, nil)
}

type nilError struct{ text string }

func (n *nilError) Error() string { return n.text }

func TestTypedNilErrorIsAFailure(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = nil
		e.put(1, 1)
		e.pass(time.Second)
		require.Equal(e, reconciler.StatusKindError, e.kind(1))
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Operations = nilTarget{e.target} })
}

type nilTarget struct{ *target }

func (nilTarget) Update(ctx context.Context, txn statedb.ReadTxn, rev statedb.Revision, o *object) error {
	var err *nilError
	return err
}

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

func TestRefreshIntervalWithoutEndIsNoHotLoop(t *testing.T) {
	var reads atomic.Int64
	inBubble(t, func(e *env) {
		e.pass(time.Second)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		e.write(func(wtxn statedb.WriteTxn) {
			s := reconciler.StatusDone()
			s.UpdatedAt = time.Now().Add(time.Hour)
			e.table.Insert(wtxn, &object{ID: 1, Status: s})
		})
		cfg.GetStatus = func(o *object) reconciler.Status {
			if reads.Add(1) > 10000 {
				panic("hot loop")
			}
			return o.Status
		}
	}, reconciler.WithRefreshing(math.MaxInt64, nil))
}

func TestRequeuedDeletionEndsWhenTheObjectIsBack(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return reconciler.Requeue(time.Minute)
			}
			return nil
		})
		e.put(1, 1)
		synctest.Wait()
		e.remove(1)
		e.pass(time.Second)
		e.put(2, 1)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)", "delete(1)", "update(1)"}, e.target.calls())
		e.pass(5 * time.Minute)
		require.Empty(e, e.target.calls())
	}, nil)
}
