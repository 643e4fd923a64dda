// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// A stuck operation holds up the refresh of its own object only.
func TestStuckOperationDoesNotEndRefreshing(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 0} {
		withStuck(t, []int{2}, func(e *env, _ int) {
			e.put(1, 1, 2)
			e.pass(time.Second)
			e.target.take()
			stuck := e.target.stick(1)
			e.pass(time.Hour)
			calls := e.target.take()
			require.GreaterOrEqual(e, len(calls), 57, "one a minute")
			require.EqualValues(e, 2, calls[0].id)
			stuck.free(1)
			e.pass(10 * time.Millisecond)
		}, reconciler.WithRefreshing(time.Minute, nil), reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = timeout }))
	}
}

// An object that the program changes after a refresh has found it Done, and before its operation, is updated.
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

// While no operation is allowed, the rows of a refresh wait in the table, not in memory.
func TestRefreshOfAllHandsOverWhatItsLaneTakes(t *testing.T) {
	for _, roundSize := range []int{10, 1000, 2000} {
		bothLedgers(t, func(e *env) {
			const n = 300
			e.put(1, ids(1, n)...)
			e.pass(time.Minute)
			e.target.take()
			none := rate.NewLimiter(0, 1)
			none.Allow()
			e.set(func(s *reconciler.Settings) { s.OperationLimiter = none })
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
			e.pass(time.Minute)
			ready := 0
			for _, id := range ids(1, n) {
				if e.loop.Explain(e.Context(), strconv.FormatUint(id, 10)).State == inspect.StateReady {
					ready++
				}
			}
			require.Equal(e, min(roundSize, max(128, roundSize/8)), ready)
			require.Empty(e, e.target.take())
			e.set(func(s *reconciler.Settings) { s.OperationLimiter = nil })
			e.pass(time.Minute)
			require.Len(e, e.target.take(), n, "each once")
		}, reconciler.WithSettings(func(s *reconciler.Settings) { s.RoundSize, s.RefreshLimiter = roundSize, nil }))
	}
}

// A row that is in flight when it is due for a refresh, because its operation has asked to be run again, is refreshed
// after that, and at each interval from then on.
func TestRowThatIsInFlightWhenItIsDueIsRefreshedAfterwards(t *testing.T) {
	inBubble(t, func(e *env) {
		calls := 0
		e.target.deciding(func(call) error {
			if calls++; calls == 1 {
				return reconciler.Requeue(59 * time.Second)
			}
			time.Sleep(2 * time.Second)
			return nil
		})
		e.put(1, 1)
		e.pass(3*time.Minute + 30*time.Second)
		require.Len(e, e.target.take(), 5, "the first, the one that it asked for, and three refreshes")
	}, nil, reconciler.WithRefreshing(time.Minute, nil))
}
