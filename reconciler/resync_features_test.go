// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

func TestAdoptionGoesWithGroups(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 2}
	resyncing(t, begin{target: map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, rows: rows, change: func(_ *env, _ *world, cfg *reconciler.Config[*object]) {
		cfg.SerialBy = func(o *object) string { return fmt.Sprint(o.ID % 2) }
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Equal(e, []string{"update(5)"}, w.changes())
		e.done(1, 2, 3, 4, 5)
	})
}

// What was adopted is no sign of life: the target is down, and the breaker opens all the same.
func TestAdoptionGoesWithABreaker(t *testing.T) {
	rows, target := map[uint64]int{}, map[uint64]int{}
	for id := range uint64(40) {
		rows[id+1] = 1
		if id%2 == 0 {
			target[id+1] = 1
		}
	}
	resyncing(t, begin{target: target, rows: rows, change: func(e *env, w *world, _ *reconciler.Config[*object]) {
		w.failing("down")
	}}, func(e *env, w *world, _ func()) {
		e.pass(10 * time.Second)
		for id := range target {
			e.done(id)
		}
		w.failing("")
		e.pass(time.Minute)
		for id := range rows {
			e.done(id)
		}
		require.Equal(e, rows, w.holds())
	}, breaksAfter(10))
}

func TestWaitsEndWithAdoption(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(5 * time.Second) })
	}}, func(e *env, w *world, _ func()) {
		ctx, cancel := context.WithTimeout(e.Context(), 2*time.Second)
		_, err := e.loop.WaitAll(ctx, reconciler.Attempted)
		cancel()
		require.ErrorIs(e, err, context.DeadlineExceeded)
		_, err = e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1}, &object{ID: 2})
		require.NoError(e, err)
		require.Empty(e, w.changes())
	})
}

// A call of Reapply is for what the listing cannot know: the object is applied.
func TestReapplyOfAnAdoptedRowAppliesIt(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, late: true}, func(e *env, w *world, done func()) {
		e.pass(time.Second)
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.NoError(e, err)
		e.pass(time.Second)
		require.Equal(e, []string{"update(1)"}, w.changes())
		done()
		e.pass(time.Second)
		require.Empty(e, w.changes())
		e.done(1, 2)
	})
}

func TestSettingsChangeDuringTheFirstListing(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: map[uint64]int{1: 1}, rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(5 * time.Second) })
	}}, func(e *env, w *world, _ func()) {
		for i := range 4 {
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) {
				s.Concurrency, s.ResyncInterval, s.ListTimeout = 1+i%2, time.Duration(i)*time.Minute, time.Duration(10+i)*time.Second
			}))
			e.pass(time.Second)
			e.loop.Pause()
			e.loop.Resync()
			e.pass(100 * time.Millisecond)
			e.loop.Resume()
		}
		e.pass(30 * time.Second)
		require.Equal(e, []string{"update(2)"}, w.changes())
		e.done(1, 2)
	})
}

// A deletion that waits while the target is listed is no orphan, and is carried out once.
func TestRowDeletedDuringTheFirstListingIsDeletedOnce(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(5 * time.Second) })
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		e.remove(1)
		w.set(nil, nil)
		e.pass(10 * time.Second)
		require.Equal(e, []string{"delete(1)"}, w.changes())
		require.Equal(e, map[uint64]int{2: 1}, w.holds())
	})
}

func TestRepairThatFailsIsRetriedAndShown(t *testing.T) {
	rows := map[uint64]int{1: 1}
	resyncing(t, begin{target: rows, rows: rows}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		w.as(nil)
		w.failing("no space")
		e.loop.Resync()
		e.pass(50 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindError, e.told(1).Kind)
		require.Equal(e, "no space", e.told(1).GetError())
		w.failing("")
		e.pass(time.Second)
		e.done(1)
		require.Equal(e, rows, w.holds())
	})
}

// Two reconcilers of one row: each has its target, and each adopts its own.
func TestEachReconcilerOfARowAdoptsItsOwn(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 1}
	resyncing(t, begin{target: rows, rows: rows, change: func(e *env, w *world, cfg *reconciler.Config[*object]) {
		if cfg.Clone == nil {
			return
		}
		other := *cfg
		other.GetStatus = func(o *object) reconciler.Status { return o.Other }
		other.SetStatus = func(o *object, s reconciler.Status) *object { o.Other = s; return o }
		second := &world{target: newTarget()}
		second.as(map[uint64]int{1: 1})
		other.Operations, other.BatchOperations, other.RoundOperations, other.Lister = second.target, nil, nil, second
		other.Options = append(other.Options[:len(other.Options):len(other.Options)], reconciler.WithName("other"))
		e.start(other)
		e.loop = nil
		e.Cleanup(func() { require.Equal(e, []string{"update(2)"}, second.changes()) })
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Empty(e, w.changes())
		e.done(1, 2)
	})
}

func TestRowsWithoutAStatusAreLeftAloneByAResync(t *testing.T) {
	resyncing(t, begin{target: map[uint64]int{1: 5, 2: 1}, rows: map[uint64]int{2: 1}, change: func(e *env, _ *world, cfg *reconciler.Config[*object]) {
		if cfg.Clone != nil {
			e.write(func(wtxn statedb.WriteTxn) { _, _, _ = e.table.Insert(wtxn, &object{ID: 1}) })
		}
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		if e.get(1) != nil {
			require.Empty(e, w.changes())
		}
	})
}

func TestTerminalRowsKeepTheirState(t *testing.T) {
	rows := map[uint64]int{1: 1}
	resyncing(t, begin{rows: rows, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.deciding(func(call) error { return reconciler.TerminalError(errors.New("bad")) })
	}}, func(e *env, w *world, _ func()) {
		e.pass(time.Second)
		require.Len(e, w.changes(), 1)
		e.loop.Resync()
		e.pass(time.Minute)
		require.Empty(e, w.changes())
	})
}
