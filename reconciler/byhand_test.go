// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Retry runs a waiting object at once, whatever it waits for, and the journal shows the call as the
// cause.
func TestRetryByHandTriesAtOnce(t *testing.T) {
	outcomes := map[string]func(never chan struct{}) error{
		"retry":    func(chan struct{}) error { return errors.New("no") },
		"terminal": func(chan struct{}) error { return reconciler.TerminalError(errors.New("never")) },
		"blocked":  func(never chan struct{}) error { return reconciler.Blocked("something", never) },
		"requeue":  func(chan struct{}) error { return reconciler.Requeue(time.Hour) },
	}
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				never := make(chan struct{})
				e.target.deciding(func(call) error { return outcome(never) })
				e.put(1, 1, 2)
				e.pass(time.Second)
				require.Len(e, e.target.take(), 2)
				e.target.failing("")
				n, err := e.loop.Retry(e.Context(), "1")
				require.NoError(e, err)
				require.Equal(e, 1, n)
				e.pass(time.Millisecond)
				require.Equal(e, []string{"update(1)"}, e.target.calls())
				events := e.loop.Operations(inspect.OperationQuery{Key: "1"})
				require.Equal(e, inspect.CauseCall, events[len(events)-1].Cause)

				n, err = e.loop.Retry(e.Context())
				require.NoError(e, err)
				require.Equal(e, 1, n, "the other object")
				e.pass(time.Millisecond)
				e.eachDone()

				n, err = e.loop.Retry(e.Context(), "1")
				require.NoError(e, err)
				require.Zero(e, n, "nothing waits")
				_, err = e.loop.Retry(e.Context(), "77")
				require.ErrorIs(e, err, inspect.ErrNotFound)
				require.ErrorContains(e, err, "77")
			}, nil, reconciler.WithRetry(time.Hour, time.Hour), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// Refresh applies given objects or all objects again, even if periodic refreshing is off.
func TestRefreshByHand(t *testing.T) {
	for name, interval := range map[string]time.Duration{"off": 0, "every hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, ids(1, 300)...)
				e.pass(time.Second)
				e.target.take()
				n, err := e.loop.Refresh(e.Context(), "7", "9")
				require.NoError(e, err)
				require.Equal(e, 2, n)
				e.pass(time.Millisecond)
				require.Equal(e, []string{"refresh(7)", "refresh(9)"}, e.target.calls())
				_, err = e.loop.Refresh(e.Context(), "500")
				require.ErrorIs(e, err, inspect.ErrNotFound)

				_, err = e.loop.Refresh(e.Context())
				require.NoError(e, err)
				e.pass(time.Minute)
				require.Len(e, e.target.take(), 300)
				e.pass(time.Minute)
				require.Empty(e, e.target.take(), "once")
				e.eachDone()
			}, nil, reconciler.WithRefreshing(interval, rate.NewLimiter(10_000, 100)))
		})
	}
}

// PauseOnly replaces the set of the paused keys. What it does not name any more is due at once.
func TestKeysArePausedAndResumedAsASet(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		e.target.take()
		// There is no object 4 yet.
		require.NoError(e, e.loop.PauseOnly("1", "2", "4"))
		e.put(2, ids(1, 4)...)
		e.pass(time.Second)
		require.Equal(e, []string{"update(3)"}, e.target.calls())
		require.Equal(e, inspect.StatePaused, e.loop.Explain(e.Context(), "1").State)
		require.NoError(e, e.loop.PauseOnly("2"))
		e.pass(time.Second)
		require.ElementsMatch(e, []string{"update(1)", "update(4)"}, e.target.calls())
		require.NoError(e, e.loop.PauseOnly())
		e.pass(time.Second)
		require.Equal(e, []string{"update(2)"}, e.target.calls())
	})
}

// Pages list every object once, in the order of the writes. Waiting objects are listed with their
// state.
func TestObjectsAreListedAPageAtATime(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id%2 == 0 {
				return errors.New("no")
			}
			return nil
		})
		e.put(1, ids(1, 250)...)
		e.pass(time.Second)
		e.remove(2, 4, 6)
		e.pass(time.Second)

		var keys []string
		q := inspect.ObjectQuery{Status: "error", Limit: 50}
		for pages := 1; ; pages++ {
			page := e.objects(q)
			require.LessOrEqual(e, len(page.Objects), 50)
			for _, o := range page.Objects {
				keys = append(keys, o.Key)
				require.Equal(e, "Error", o.Status)
				require.Equal(e, "no", o.Error)
				require.Equal(e, inspect.StateRetry, o.State)
				require.Equal(e, 1, o.Attempts)
				require.False(e, o.Next.IsZero())
			}
			if page.Next == "" {
				require.Equal(e, 3, pages)
				break
			}
			q.After = page.Next
		}
		require.Len(e, keys, 122)
		require.Equal(e, "8", keys[0])

		deleted := e.objects(inspect.ObjectQuery{Status: "Deleted", Limit: 2})
		require.Len(e, deleted.Objects, 2)
		require.Equal(e, "2", deleted.Objects[0].Key)
		require.Equal(e, inspect.StateRetry, deleted.Objects[0].State)
		deleted = e.objects(inspect.ObjectQuery{Status: "Deleted", Limit: 2, After: deleted.Next})
		require.Len(e, deleted.Objects, 1)
		require.Empty(e, deleted.Next)

		_, err := e.loop.Objects(e.Context(), inspect.ObjectQuery{Status: "odd"})
		require.ErrorContains(e, err, `status is "odd"`)
		_, err = e.loop.Objects(e.Context(), inspect.ObjectQuery{After: "x"})
		require.ErrorContains(e, err, `after is "x"`)
		require.Equal(e, []string{"10", "100", "101"}, sorted(e.loop.Keys("10", 3)))
	}, nil, reconciler.WithRetry(time.Hour, time.Hour))
}

func sorted(keys []string) []string { slices.Sort(keys); return keys }

// A call by key takes at most MaxKeys keys. Keys that do not exist are not kept; the error has one line
// for each of them.
func TestCallsByKeyAreBounded(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		keys := []string{"1"}
		for i := range inspect.MaxKeys - 1 {
			keys = append(keys, fmt.Sprintf("no\n%d", i))
		}
		for name, call := range map[string]func(...string) (int, error){
			"retry":   func(keys ...string) (int, error) { return e.loop.Retry(e.Context(), keys...) },
			"refresh": func(keys ...string) (int, error) { return e.loop.Refresh(e.Context(), keys...) },
		} {
			n, err := call(keys...)
			require.LessOrEqual(e, n, 1, name)
			require.ErrorIs(e, err, inspect.ErrNotFound, name)
			require.Len(e, err.(interface{ Unwrap() []error }).Unwrap(), inspect.MaxKeys-1, name)
			require.Equal(e, inspect.MaxKeys-1, strings.Count(err.Error(), "no such object: "), name)
			require.Equal(e, inspect.MaxKeys-2, strings.Count(err.Error(), "\n"), "a line each: %s", name)

			n, err = call(append(keys, "2")...)
			require.Zero(e, n, name)
			require.EqualError(e, err, "1001 keys are too many for one call: at most 1000", name)
		}
	}, nil, reconciler.WithoutPruning())
}
