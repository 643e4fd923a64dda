// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// In a bubble no time passes between the call of Refresh, the refresh and the next read.
func TestRefreshOfAllEndsWhenNoTimePasses(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(0)
		require.Equal(e, []string{"update(1)", "update(2)"}, e.target.calls())
		for range 2 {
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
			e.pass(0)
			require.Equal(e, []string{"refresh(1)", "refresh(2)"}, e.target.calls())
		}
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
	}, nil)
}

// A refresh of all objects leaves none out, even if the settings of refreshes change while it waits
// for their limiter.
func TestRefreshOfAllOutlivesAChangeOfItsLimiter(t *testing.T) {
	for _, workers := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.put(1, ids(1, 5)...)
			e.pass(time.Second)
			e.target.take()
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
			e.pass(time.Second)
			require.Equal(e, []string{"refresh(1)"}, e.target.calls(), "the next one waits for the limiter")
			e.set(func(s *reconciler.Settings) { s.RefreshLimiter = nil })
			e.pass(time.Second)
			require.ElementsMatch(e, []string{"refresh(2)", "refresh(3)", "refresh(4)", "refresh(5)"}, e.target.calls())
		}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRefreshing(0, rate.NewLimiter(rate.Every(time.Minute), 1)))
	}
}

// A refresh is counted when its mark is read. Passes that do not read the table, for example while
// all workers are busy, do not count it again.
func TestRefreshIsCountedOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 8)...)
		e.pass(time.Minute)
		e.target.mu.Lock()
		e.target.before = func(context.Context, call) { time.Sleep(10 * time.Millisecond) }
		e.target.mu.Unlock()
		_, err := e.loop.Refresh(e.Context(), "1", "2", "3", "4", "5", "6", "7", "8")
		require.NoError(e, err)
		e.pass(time.Minute)
		require.Equal(e, 8, int(e.loop.Figures().Refreshes))
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }), reconciler.WithRefreshing(0, nil))
}

// An object that the program changes after a refresh has found it Done, and before the table is locked
// for the mark, is not marked: it is updated.
func TestRefreshLeavesAnObjectThatIsNotDoneAnyMore(t *testing.T) {
	var changes atomic.Bool
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(time.Minute - 1)
		e.target.take()
		changes.Store(true)
		e.pass(time.Second)
		require.False(e, changes.Load())
		require.ElementsMatch(e, []string{"update(1)", "refresh(2)"}, e.target.calls())
		e.eachDone()
	}, func(e *env, cfg *reconciler.Config[*object]) {
		cfg.GetStatus = func(o *object) reconciler.Status {
			if o.ID == 1 && o.Status.Kind == reconciler.StatusKindDone && changes.Swap(false) {
				e.put(2, 1)
			}
			return o.Status
		}
	}, reconciler.WithRefreshing(time.Minute, nil))
}
