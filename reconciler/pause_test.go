// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// waiting creates an object for each outcome, and two that are done. Failed and requeued objects
// run again within a minute, the blocked one when the channel is closed.
func (e *env) waiting() (door chan struct{}) {
	door = make(chan struct{})
	outcomes := map[uint64]error{
		1: nil, 2: errPlain, 3: reconciler.RetryAfter(errPlain, 30*time.Second),
		4: reconciler.TerminalError(errPlain), 5: reconciler.Blocked("door", door), 6: reconciler.Requeue(30 * time.Second),
	}
	e.target.deciding(func(c call) error { return outcomes[c.id] })
	e.put(1, ids(1, 7)...)
	e.pass(time.Second)
	e.target.take()
	return door
}

// A pause of the reconciler holds back all work, costs no passes, and the work runs at the resume.
func TestPausedReconcilerStartsNothing(t *testing.T) {
	var p passes
	everyWayWith(t, p.count, func(e *env) {
		door := e.waiting()
		e.loop.Pause()
		synctest.Wait()
		level, message, _ := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Contains(e, message, "paused")

		counted := p.during(func() {
			e.pass(20 * time.Second)
			e.put(2, 1, 8, 9)
			e.remove(7, 9)
			e.loop.Prune()
			close(door)
			e.pass(24 * time.Hour)
		})
		require.LessOrEqual(e, counted, int64(4), "passes")
		require.Empty(e, e.target.calls())
		require.Equal(e, reconciler.StatusKindPending, e.kind(8))

		e.target.failing("")
		e.loop.Resume()
		synctest.Wait()
		_, message, _ = e.health.Now()
		require.NotContains(e, message, "paused")
		require.Len(e, e.target.take(), 9, "1 to 3, 5 to 9 once, and the prune")
		e.put(2, 4)
		e.pass(time.Second)
		e.eachDone()
	}, reconciler.WithPruning(24*time.Hour+time.Minute), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
}

// Running operations finish, and their outcomes are written at once.
func TestPauseLetsRunningOperationsFinish(t *testing.T) {
	everyWay(t, func(e *env) {
		var started atomic.Int64
		e.target.before = func(context.Context, call) { started.Add(1); time.Sleep(time.Second) }
		e.put(1, ids(1, 10)...)
		e.pass(500 * time.Millisecond)
		e.loop.Pause()
		synctest.Wait()
		running := started.Load()
		require.Positive(e, running)
		e.pass(time.Minute)
		done := 0
		for _, id := range ids(1, 10) {
			if e.kind(id) == reconciler.StatusKindDone {
				done++
			}
		}
		require.Equal(e, started.Load(), int64(done), "every started operation is done")
		require.Len(e, e.target.take(), done)
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
		require.Len(e, e.target.take(), 10-done)
	}, reconciler.WithRoundLimits(5, nil))
}

// After the loop has observed the pause nothing starts, even if fast workers have jobs queued.
func TestPauseStopsOperationsQueuedForWorkers(t *testing.T) {
	var slow atomic.Bool
	inBubble(t, func(e *env) {
		var after atomic.Int64
		e.target.before = func(context.Context, call) {
			if slow.Load() {
				after.Add(1)
				time.Sleep(time.Second)
				return
			}
			time.Sleep(10 * time.Microsecond)
		}
		e.put(1, ids(1, 5000)...)
		e.pass(time.Second)
		e.eachDone()
		slow.Store(true)
		e.put(2, ids(1, 5000)...)
		synctest.Wait()
		e.loop.Pause()
		synctest.Wait()
		started := after.Load()
		require.EqualValues(e, 4, started)
		e.pass(time.Minute)
		require.Equal(e, started, after.Load())
		slow.Store(false)
		e.loop.Resume()
		e.pass(time.Minute)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }), reconciler.WithoutPruning())
}

func TestPauseBeforeTheStartHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		loop, err := reconciler.New(e.config(reconciler.WithPruning(time.Hour)))
		require.NoError(e, err)
		loop.Pause()
		ctx, cancel := context.WithCancel(e.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		e.put(1, 1)
		e.pass(5 * time.Hour)
		require.Empty(e, e.target.calls())
		loop.Resume()
		synctest.Wait()
		require.Equal(e, []string{"update(1)", "prune(1)"}, e.target.calls())
		cancel()
		require.NoError(e, <-ended)
	})
}

// A paused backlog costs nothing. With periodic refreshes, the refresher reads it once.
func TestPausedBacklogIsNotRead(t *testing.T) {
	const backlog = 10_000
	for refresh, reads := range map[time.Duration]int64{0: 0, time.Minute: backlog} {
		var p passes
		everyWayWith(t, func(e *env, cfg *reconciler.Config[*object]) { p.count(e, cfg); countReads(e, cfg) }, func(e *env) {
			e.loop.Pause()
			synctest.Wait()
			e.put(1, ids(1, backlog)...)
			counted.Store(0)
			require.Zero(e, p.during(func() { e.pass(24 * time.Hour) }))
			require.LessOrEqual(e, counted.Load(), reads)
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.RoundSize = 100 }))
			require.LessOrEqual(e, p.during(func() { e.pass(24 * time.Hour) }), int64(1))
			e.loop.Resume()
			e.pass(10 * time.Second)
			e.eachDone()
		}, reconciler.WithRefreshing(refresh, nil))
	}
}

// A due prune waits for the workers. A pause during this wait delays the prune until the resume,
// and the loop does not spin.
func TestPauseDelaysAPruneThatWaitsForWorkers(t *testing.T) {
	var p passes
	inBubble(t, func(e *env) {
		e.target.before = func(_ context.Context, c call) { time.Sleep(time.Duration(c.value) * time.Second) }
		e.put(1, 1)
		e.pass(10 * time.Millisecond)
		e.loop.Prune()
		e.pass(10 * time.Millisecond)
		e.loop.Pause()
		require.LessOrEqual(e, p.during(func() { e.pass(time.Hour) }), int64(10))
		require.Equal(e, []string{"update(1)"}, e.target.calls())
		e.loop.Resume()
		synctest.Wait()
		require.Equal(e, []string{"prune(1)"}, e.target.calls())
	}, p.count, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
}

func TestWaitUntilReconciledWaitsForTheEndOfAPause(t *testing.T) {
	everyWay(t, func(e *env) {
		e.loop.Pause()
		synctest.Wait()
		revision := e.put(1, 1)
		ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
		defer cancel()
		_, _, err := e.loop.WaitUntilReconciled(ctx, revision)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.loop.Resume()
		_, low, err := e.loop.WaitUntilReconciled(e.Context(), revision)
		require.NoError(e, err)
		require.Zero(e, low)
		e.eachDone()
	})
}

// The latest call counts, however fast the calls follow each other.
func TestLastCallOfPauseCounts(t *testing.T) {
	everyWay(t, func(e *env) {
		all := func(*object) bool { return true }
		for name, calls := range map[string][]func(){
			"paused":             {e.loop.Resume, e.loop.Pause},
			"again":              {e.loop.Pause, e.loop.Resume, e.loop.Pause, e.loop.Pause},
			"after no predicate": {func() { e.loop.PauseObjects(nil) }, e.loop.Pause},
			"by a predicate":     {e.loop.Pause, func() { e.loop.PauseObjects(all) }},
		} {
			for _, f := range calls {
				f()
			}
			e.put(1, 1)
			e.pass(time.Minute)
			require.Empty(e, e.target.calls(), name)
			e.loop.Pause()
			e.loop.PauseObjects(nil)
			e.pass(time.Minute)
			require.Len(e, e.target.take(), 1, name)
		}
	})
}

// Deletions wait for the end of a pause. An object that was inserted and deleted during the pause
// is never updated.
func TestDeletionsWaitForTheEndOfAPause(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		e.target.take()
		e.loop.Pause()
		synctest.Wait()
		e.put(1, 4)
		e.remove(1, 2, 4)
		e.put(2, 2)
		e.pass(time.Hour)
		require.Len(e, e.target.holds(), 3)
		e.loop.Resume()
		e.pass(time.Second)
		e.eachDone()
		calls := e.target.calls()
		require.Subset(e, calls, []string{"delete(1)", "update(2)"})
		require.NotContains(e, calls, "update(4)")
	})
}

// A pause does not delay a stop.
func TestPausedReconcilerStops(t *testing.T) {
	everyWay(t, func(e *env) {
		e.target.before = func(ctx context.Context, c call) { <-ctx.Done() }
		e.put(1, 1, 2)
		e.pass(time.Millisecond)
		e.loop.Pause()
		e.pass(time.Second)
		start := time.Now()
		e.stop()
		require.Equal(e, start, time.Now())
		e.write(func(wtxn statedb.WriteTxn) { require.NoError(e, e.table.DeleteAll(wtxn)) })
	})
}
