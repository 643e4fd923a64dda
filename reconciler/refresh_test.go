// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// costs makes each batch call take aCall, and anObject more for each of its objects.
func (x *target) costs(aCall, anObject time.Duration) {
	var begun sync.Map
	x.deciding(func(c call) error {
		if _, has := begun.LoadOrStore(c.batch, true); !has {
			time.Sleep(aCall)
		}
		time.Sleep(anObject)
		return nil
	})
}

// sizesOf returns the number of objects of each call, in the order in which the calls began.
func sizesOf(calls []call) (sizes []int) {
	places := map[int]int{}
	for _, c := range calls {
		if _, has := places[c.batch]; !has {
			places[c.batch] = len(sizes)
			sizes = append(sizes, 0)
		}
		sizes[places[c.batch]]++
	}
	return sizes
}

// eachBatch runs a test for batches and for rounds, with one worker and with four.
func eachBatch(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"batches", "rounds"} {
		eachConcurrency(t, kind, test, operate(kind), opts...)
	}
}

// A refresh of 1,000 objects takes a few calls, not one for each object, whatever a call costs.
func TestRefreshKeepsBatches(t *testing.T) {
	for _, cost := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
		t.Run(cost.String(), func(t *testing.T) {
			eachBatch(t, func(e *env) {
				e.put(1, ids(1, 1000)...)
				e.pass(time.Minute)
				e.target.take()
				e.target.costs(cost, 0)
				for range 3 {
					e.pass(time.Hour)
					calls := e.target.take()
					require.Len(e, calls, 1000)
					require.LessOrEqual(e, len(sizesOf(calls)), 8, "calls")
				}
				_, err := e.loop.Refresh(e.Context())
				require.NoError(e, err)
				e.pass(10 * time.Second)
				calls := e.target.take()
				require.Len(e, calls, 1000)
				require.LessOrEqual(e, len(sizesOf(calls)), 8, "calls")
			}, reconciler.WithRefreshing(time.Hour, nil))
		})
	}
}

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

// Passes that begin nothing, for example while all workers are busy, do not count a refresh again.
func TestRefreshIsCountedOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 8)...)
		e.pass(time.Minute)
		e.target.takes(10 * time.Millisecond)
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(time.Minute)
		require.EqualValues(e, 8, e.loop.Figures().Refreshes)
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
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
