// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// blocking makes every operation return Blocked with a channel that never closes.
func (e *env) blocking(reason string) {
	never := make(chan struct{})
	e.target.deciding(func(call) error { return reconciler.Blocked(reason, never) })
}

func TestBlockedObjectIsRecheckedAfterAMinute(t *testing.T) {
	everyWay(t, func(e *env) {
		e.blocking("door")
		start := time.Now()
		e.put(1, 1)
		e.pass(150 * time.Second)
		require.Equal(e, seconds(0, 60, 120), since(start, e.target.take()))
		e.target.failing("")
		e.pass(30 * time.Second)
		e.eachDone()
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 1)
	})
}

// Objects that were blocked together are rechecked at different times, unless they were in one
// call.
func TestRechecksAreSpread(t *testing.T) {
	singly(t, func(e *env) {
		e.blocking("door")
		start := time.Now()
		e.put(1, ids(1, 1000)...)
		e.pass(time.Second)
		require.Len(e, e.target.take(), 1000)
		e.pass(time.Minute)
		calls := e.target.take()
		require.Len(e, calls, 1000)
		moments := map[time.Time]int{}
		for _, c := range calls {
			after := c.at.Sub(start)
			require.GreaterOrEqual(e, after, 54*time.Second)
			require.LessOrEqual(e, after, 60*time.Second+500*time.Millisecond)
			moments[c.at]++
		}
		require.Greater(e, len(moments), 300)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0.1 }))
}

func TestBlockedObjectIsNotRunAgainWithoutRecheck(t *testing.T) {
	everyWay(t, func(e *env) {
		e.blocking("door")
		e.put(1, 1)
		e.pass(1000 * time.Hour)
		require.Len(e, e.target.take(), 1)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}

// An object that is still blocked for the same reason is not written, and no watcher wakes.
func TestUnchangedBlockIsNotWritten(t *testing.T) {
	everyWay(t, func(e *env) {
		e.blocking("door")
		e.put(1, ids(1, 3)...)
		synctest.Wait()
		_, watch := e.table.AllWatch(e.db.ReadTxn())
		reports := len(e.health.History())
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 3+3*60)
		select {
		case <-watch:
			e.Fatal("the table changed")
		default:
		}
		require.Len(e, e.health.History(), reports)

		revision := e.table.Revision(e.db.ReadTxn())
		e.blocking("gate")
		e.pass(time.Hour)
		e.status(1, reconciler.StatusKindBlocked, "gate")
		require.Equal(e, revision+3, e.table.Revision(e.db.ReadTxn()))
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = time.Minute - time.Millisecond }))
}

// Each attempt restarts the wait for the recheck.
func TestReleaseRestartsTheWaitForTheRecheck(t *testing.T) {
	everyWay(t, func(e *env) {
		var door atomic.Value
		open := func() {
			was, _ := door.Swap(make(chan struct{})).(chan struct{})
			if was != nil {
				close(was)
			}
		}
		open()
		e.target.deciding(func(call) error { return reconciler.Blocked("door", door.Load().(chan struct{})) })
		start := time.Now()
		e.put(1, 1)
		e.pass(50 * time.Second)
		open()
		e.pass(2 * time.Minute)
		require.Equal(e, seconds(0, 50, 110, 170), since(start, e.target.take()))
	})
}

func TestRecheckCanBeChanged(t *testing.T) {
	everyWay(t, func(e *env) {
		set := func(d time.Duration) {
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.BlockedRecheck = d }))
		}
		e.blocking("door")
		start := time.Now()
		e.put(1, 1)
		synctest.Wait()
		set(10 * time.Second)
		e.pass(85 * time.Second)
		require.Equal(e, seconds(0, 60, 70, 80), since(start, e.target.take()), "from the next block on")
		set(0)
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 1)
		require.ErrorContains(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.BlockedRecheck = -1 }),
			"Settings.BlockedRecheck is -1ns, must not be negative")
	})
}

// A block is neither a success nor a failure: the backoff of earlier failures continues after it.
func TestFailuresAreCountedOverABlock(t *testing.T) {
	everyWay(t, func(e *env) {
		door := make(chan struct{})
		var n atomic.Int64
		e.target.deciding(func(call) error {
			if n.Add(1) == 4 {
				return reconciler.Blocked("door", door)
			}
			return errPlain
		})
		e.put(1, 1)
		e.pass(time.Hour)
		require.Len(e, e.target.take(), 4)
		e.status(1, reconciler.StatusKindBlocked, "door")
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 1 object(s), 1 blocked", message)
		start := time.Now()
		close(door)
		e.pass(5 * time.Second)
		require.Equal(e, seconds(0, 0.8, 2.4), since(start, e.target.take()))
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}
