// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

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
