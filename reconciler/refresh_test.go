// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// costs makes each batch call take aCall, and anObject more for each of its objects.
func (x *target) costs(aCall, anObject time.Duration) {
	last := 0
	x.deciding(func(c call) error {
		if c.batch != last {
			last = c.batch
			time.Sleep(aCall)
		}
		time.Sleep(anObject)
		return nil
	})
}

// sizesOf returns the number of objects of each call, in order.
func sizesOf(calls []call) (sizes []int) {
	last := 0
	for _, c := range calls {
		if c.batch != last {
			last = c.batch
			sizes = append(sizes, 0)
		}
		sizes[len(sizes)-1]++
	}
	return sizes
}

// eachBatch runs a test for batches and for rounds, with one worker and with four.
func eachBatch(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"batches", "rounds"} {
		eachConcurrency(t, kind, test, operate(kind), opts...)
	}
}

// A refresh of 1,000 objects takes a few calls, not one for each object, whatever a call costs. It
// takes fewer calls when the loop has measured what a call costs.
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
					require.LessOrEqual(e, len(sizesOf(calls)), 20, "calls")
				}
				_, err := e.loop.Refresh(e.Context())
				require.NoError(e, err)
				e.pass(10 * time.Second)
				calls := e.target.take()
				require.Len(e, calls, 1000)
				require.LessOrEqual(e, len(sizesOf(calls)), 4, "calls")
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

// A refresh of all objects includes every row, even rows that another reconciler writes meanwhile.
func TestRefreshOfAllIncludesRowsThatOthersWriteMeanwhile(t *testing.T) {
	everyWay(t, func(e *env) {
		const n = 300
		e.put(1, ids(1, n)...)
		e.pass(time.Minute)
		e.target.take()
		e.target.takes(100 * time.Microsecond)
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		for id := uint64(n); id > 0; id-- {
			e.rewrite(id)
			e.pass(time.Millisecond)
		}
		e.pass(time.Minute)
		calls := e.target.calls()
		slices.Sort(calls)
		require.Len(e, calls, n)
		require.Len(e, slices.Compact(calls), n, "each once")
	})
}

// A refresh of all objects ends when each has been refreshed once, even if a clock that was set
// back makes every status look older than the call.
func TestRefreshOfAllEndsThoughTheClockIsSetBack(t *testing.T) {
	var back atomic.Int64
	eachConcurrency(t, "single", func(e *env) {
		e.put(1, 1, 2, 3)
		e.pass(time.Minute)
		e.target.take()
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		back.Store(int64(time.Hour))
		e.pass(time.Minute)
		require.Len(e, e.target.take(), 3)
		back.Store(0)
	}, func(_ *env, cfg *reconciler.Config[*object]) {
		cfg.SetStatus = func(o *object, s reconciler.Status) *object {
			s.UpdatedAt = s.UpdatedAt.Add(-time.Duration(back.Load()))
			return o.SetStatus(s)
		}
	})
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
		e.target.takes(10 * time.Millisecond)
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(time.Minute)
		require.EqualValues(e, 8, e.loop.Figures().Refreshes)
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
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
