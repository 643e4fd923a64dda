// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// The tests of this file check promises that statedb's reconciler was seen to break, in measurements or in reports of
// its users. A number is that of the invariant in DESIGN, section 6.

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

// 7: an idle loop costs nothing: it reads no keys and reports no health.
func TestIdleLoopReadsNothing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 100)...)
		synctest.Wait()
		counted.Store(0)
		reports := len(e.health.History())
		e.pass(24 * time.Hour)
		require.Zero(e, counted.Load())
		require.Len(e, e.health.History(), reports)
	}, countReads, reconciler.WithoutPruning())
}

// 8: an idle loop does not keep replaced objects alive, in its own table or in another.
func TestIdleLoopKeepsNothingOfOtherTablesAlive(t *testing.T) {
	inBubble(t, func(e *env) {
		others, err := statedb.NewTable(e.db, "others", idIndex)
		require.NoError(e, err)
		write := func(o *object) {
			wtxn := e.db.WriteTxn(others)
			_, _, err := others.Insert(wtxn, o)
			require.NoError(e, err)
			wtxn.Commit()
		}
		old := &object{ID: 1}
		kept := weak.Make(old)
		write(old)
		old = nil
		e.put(1, 1)
		e.pass(time.Millisecond)
		// Two writes, since statedb remembers the transaction before the last one.
		write(&object{ID: 1})
		write(&object{ID: 1})
		runtime.GC()
		require.Nil(e, kept.Value())
	}, nil)
}
