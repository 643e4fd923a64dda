// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// loading runs a test, with each kind of operations and with 1 and 8 workers, against a loop that
// sweeps periodically. Its table is initialised when the test calls done.
func loading(t *testing.T, test func(e *env, s *lister, done func()), options ...reconciler.Option) {
	for _, kind := range []string{"single", "batches"} {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, workers %d", kind, workers), func(t *testing.T) {
				var s *lister
				var initialized func(statedb.WriteTxn)
				inBubble(t, func(e *env) {
					test(e, s, func() { e.write(initialized) })
				}, func(e *env, cfg *reconciler.Config[*object]) {
					e.write(func(wtxn statedb.WriteTxn) { initialized = e.table.RegisterInitializer(wtxn, "load") })
					s = &lister{target: e.target}
					cfg.Sweeper = s
					operate(kind)(e, cfg)
				}, append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers })}, options...)...)
			})
		}
	}
}

// lasting makes every operation on an object take the time that f returns.
func (x *target) lasting(f func(c call) time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if c.op != "prune" {
			time.Sleep(f(c))
		}
	}
}

// listings returns the times of the listings, relative to start.
func listings(start time.Time, calls []call) (at []time.Duration) {
	for _, c := range calls {
		if c.op == "prune" {
			at = append(at, c.at.Sub(start))
		}
	}
	return at
}

func TestFirstSweepWaitsUntilTheInitialLoadHasBeenAttempted(t *testing.T) {
	loading(t, func(e *env, s *lister, done func()) {
		const took = 50 * time.Millisecond
		s.strays(1000)
		s.deciding(func(c call) error {
			if c.op == "update" && c.id <= 3 {
				return errors.New("an attempt that fails")
			}
			return nil
		})
		s.lasting(func(c call) time.Duration { return took })
		e.put(1, 1, 2, 3)
		e.pass(time.Minute)
		require.Empty(e, listings(time.Now(), s.take()), "the table is not initialised")

		load := ids(4, 4+20*uint64(e.loop.Settings().Concurrency))
		e.put(1, load...)
		start := time.Now()
		done()
		// Later changes do not delay the sweep, and a call of Prune does not make it earlier.
		for id := uint64(1001); id < 1100; id++ {
			e.loop.Prune()
			e.pass(20 * time.Millisecond)
			e.put(1, id)
		}
		e.pass(time.Minute)
		calls := s.take()
		at := listings(start, calls)
		require.NotEmpty(e, at)
		var attempted time.Duration
		var deleted []uint64
		for _, c := range calls {
			switch {
			case c.op == "delete":
				deleted = append(deleted, c.id)
			case c.op == "update" && c.id <= load[len(load)-1]:
				attempted = max(attempted, c.at.Add(took).Sub(start))
			}
		}
		require.GreaterOrEqual(e, at[0], attempted)
		require.Less(e, at[0], attempted+1500*time.Millisecond, "before the later changes were attempted")
		require.Equal(e, []uint64{1000}, deleted)
	}, reconciler.WithRoundLimits(4, nil), reconciler.WithRetry(time.Hour, time.Hour))
}

func TestEmptyTableIsSweptAsSoonAsItIsInitialised(t *testing.T) {
	loading(t, func(e *env, s *lister, done func()) {
		s.strays(1, 2)
		e.pass(time.Hour)
		require.Empty(e, s.take())
		done()
		synctest.Wait()
		require.Empty(e, s.holds())
	})
}

// While a sweep waits for the initial load, an interval that has passed must not wake the loop: it
// would spin, and virtual time would not advance.
func TestIntervalThatPassesDuringTheInitialLoadCausesNoSpin(t *testing.T) {
	for _, workers := range []int{1, 8} {
		inBubble(t, func(e *env) {
			start := time.Now()
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.PruneInterval = time.Second }))
			e.pass(35 * time.Second)
			require.Equal(e, seconds(30, 31, 32, 33, 34, 35), listings(start, e.target.take()))
		}, func(e *env, cfg *reconciler.Config[*object]) {
			e.put(1, 1)
			e.target.lasting(func(call) time.Duration { return 30 * time.Second })
			cfg.Sweeper = &lister{target: e.target}
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
	}
}

func TestIntervalOfSweepsCanBeChangedWhileTheyRun(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		start := time.Now()
		interval := func(d time.Duration) {
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.PruneInterval = d }))
		}
		e.pass(time.Hour)
		require.Empty(e, s.take(), "no interval is set")
		interval(time.Minute)
		e.pass(150 * time.Second)
		interval(10 * time.Second)
		e.pass(25 * time.Second)
		interval(0)
		e.pass(time.Hour)
		require.Equal(e, []time.Duration{
			time.Hour + time.Minute, time.Hour + 2*time.Minute,
			time.Hour + 160*time.Second, time.Hour + 170*time.Second,
		}, listings(start, s.take()))
	})
}

// A sweep holds up changes for its listing only, not for its deletions.
func TestSweepDoesNotHoldUpFreshChanges(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.strays(ids(1000, 1999)...)
		e.target.lasting(func(call) time.Duration { return 10 * time.Millisecond })
		e.sweep()
		e.pass(100 * time.Millisecond)
		e.put(1, 1)
		written := time.Now()
		e.pass(time.Minute)
		require.LessOrEqual(e, e.get(1).Status.UpdatedAt.Sub(written), 50*time.Millisecond)
		e.eachDone()
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Sweeper = &lister{target: e.target} })
}

// The limits of all deletions apply to orphans as well.
func TestSweptObjectsKeepToTheLimits(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.strays(ids(1, 40)...)
		e.target.lasting(func(call) time.Duration { return 10 * time.Millisecond })
		start := time.Now()
		e.sweep()
		e.pass(time.Minute)
		require.Empty(e, e.target.holds())
		require.Equal(e, 8, e.target.most)
		calls := e.target.take()
		require.Less(e, calls[len(calls)-1].at.Sub(start), 100*time.Millisecond, "eight at a time")
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Sweeper = &lister{target: e.target} },
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 8 }))
}

func TestPausedReconcilerDoesNotSweep(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(1, 2)
		e.loop.Pause()
		e.loop.Prune()
		e.pass(time.Hour)
		require.Empty(e, s.take())
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 1 })
		e.pass(time.Second)
		require.Equal(e, []string{"delete(2)"}, s.ops(), "an orphan can be paused like any object")
		e.loop.Resume()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(1)"}, s.ops())
	})
}

func TestListGetsTheSnapshotOfItsRound(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		synctest.Wait()
		e.sweep()
		require.Equal(e, 2, e.target.most)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.Sweeper = listerFunc(func(_ context.Context, txn statedb.ReadTxn, _ func(*object) bool) error {
			e.target.most = e.table.NumObjects(txn)
			return nil
		})
	})
}

type listerFunc func(context.Context, statedb.ReadTxn, func(*object) bool) error

func (f listerFunc) List(ctx context.Context, txn statedb.ReadTxn, yield func(*object) bool) error {
	return f(ctx, txn, yield)
}
