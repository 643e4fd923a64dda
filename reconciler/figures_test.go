// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// stateCount returns how many objects are in a state according to the figures.
func stateCount(e *env, f metrics.Figures, state string) int {
	for _, s := range f.States {
		if s.State == state {
			return s.Count
		}
	}
	require.Fail(e, "no state "+state)
	return 0
}

// Figures match what the target saw, with each kind of operations and any number of workers.
func TestFiguresCountWhatTheTargetSaw(t *testing.T) {
	for _, kind := range operationKinds {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, func(e *env) { countTheTarget(e) }, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n }))
			})
		}
	}
}

func countTheTarget(e *env) {
	e.target.takes(time.Millisecond)
	blocker := make(chan struct{})
	var tried sync.Map
	e.target.deciding(func(c call) error {
		_, again := tried.LoadOrStore(c.id, true)
		switch first := !again; {
		case c.op != "update":
			return nil
		case c.id <= 10 && first:
			return errors.New("no")
		case c.id <= 13:
			return nil
		case c.id == 14:
			return reconciler.TerminalError(errors.New("never"))
		case c.id == 15 && first:
			return reconciler.Blocked("something", blocker)
		case c.id == 16 && first:
			return reconciler.Requeue(time.Second)
		}
		return nil
	})
	e.put(1, ids(1, 20)...)
	e.pass(50 * time.Millisecond)
	f := e.loop.Figures()
	require.Equal(e, 20, f.Objects)
	require.Equal(e, 11, f.Failing)
	require.Equal(e, 10, stateCount(e, f, "retry"))
	require.Equal(e, 1, stateCount(e, f, "terminal"))
	require.Equal(e, 1, stateCount(e, f, "blocked"))
	require.Equal(e, 1, stateCount(e, f, "requeue"))
	require.False(e, f.OldestUnapplied.IsZero())

	close(blocker)
	e.pass(5 * time.Second)
	e.remove(ids(17, 20)...)
	e.pass(time.Second)

	f = e.loop.Figures()
	require.EqualValues(e, 10, f.Updates.Failed)
	require.EqualValues(e, 1, f.Updates.Terminal)
	require.EqualValues(e, 1, f.Updates.Blocked)
	require.EqualValues(e, 1, f.Updates.Requeued)
	require.EqualValues(e, 19, f.Updates.Done, "all but the terminal one")
	require.EqualValues(e, 4, f.Deletes.Done)
	require.EqualValues(e, 10, f.Retries)
	require.EqualValues(e, 1, f.Released)
	require.EqualValues(e, 16, f.Objects)
	require.EqualValues(e, 23, f.Latency.Count, "each applied change counts once")
	require.Equal(e, 1, f.Failing)
	require.Zero(e, f.Unseen)

	updates, deletes := 0, 0
	for _, c := range e.target.take() {
		switch c.op {
		case "update":
			updates++
		case "delete":
			deletes++
		}
	}
	u := f.Updates
	require.EqualValues(e, updates, u.Done+u.Failed+u.Terminal+u.Blocked+u.Requeued)
	require.EqualValues(e, deletes, f.Deletes.Done)
	require.Positive(e, f.Updates.Durations.Count)
	require.LessOrEqual(e, f.Updates.Durations.Count, uint64(updates))
	require.InDelta(e, float64(updates)*0.001, u.Durations.Sum, float64(updates)*0.001)
	require.Positive(e, f.CommitSizes.Count)
	require.EqualValues(e, f.CommitSizes.Count, f.CommitDurations.Count)
}

// The latency of a change counts from its write until it is applied, across failures. OldestUnapplied
// is the time at which the oldest unapplied change was written.
func TestLatencyIsFromTheWriteToTheTarget(t *testing.T) {
	inBubble(t, func(e *env) {
		began := time.Now()
		e.target.failing("no")
		e.put(1, 1)
		e.pass(10 * time.Second)
		e.put(1, 2)
		e.pass(time.Second)
		require.WithinDuration(e, began, e.loop.Figures().OldestUnapplied, time.Microsecond)
		e.target.failing("")
		e.pass(time.Minute)
		f := e.loop.Figures()
		require.Zero(e, f.OldestUnapplied)
		require.EqualValues(e, 2, f.Latency.Count)
		require.Greater(e, f.Latency.Sum, 12.0)
		require.Less(e, f.Latency.Sum, 40.0)

		// A refresh is no change.
		_, err := e.loop.Refresh(e.Context(), "1")
		require.NoError(e, err)
		e.pass(time.Second)
		after := e.loop.Figures()
		require.EqualValues(e, 1, after.Refreshes)
		require.Equal(e, f.Latency.Count, after.Latency.Count)
	}, nil)
}

// Figures do not wait for a running operation. They count the changes behind it, and have the age of
// the oldest.
func TestFiguresDoNotWaitForAnOperation(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(context.Context, call) { time.Sleep(time.Hour) }
		began := time.Now()
		e.put(1, 1)
		e.pass(time.Minute)
		e.put(1, ids(2, 50)...)
		e.pass(time.Minute)
		f := e.loop.Figures()
		require.Equal(e, began, f.OldestUnapplied)
		require.Equal(e, 50, f.Unseen)
		s := e.loop.Snapshot(e.Context())
		require.Equal(e, inspect.ConditionBusy, s.Condition)
		require.Contains(e, s.Busy, "update of 1, running since")
	}, nil)
}

// Failures by panics and timeouts are counted, and so are prunes.
func TestFiguresCountWhatGoesWrong(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(_ context.Context, c call) {
			switch {
			case c.op != "update":
			case c.id == 1:
				panic("no")
			default:
				time.Sleep(2 * time.Second)
			}
		}
		e.target.deciding(func(c call) error {
			if c.op == "update" && c.id == 2 {
				return errors.New("late")
			}
			return nil
		})
		e.put(1, 1, 2)
		e.pass(5 * time.Second)
		e.loop.Prune()
		e.pass(time.Second)
		f := e.loop.Figures()
		require.EqualValues(e, 1, f.Panics)
		require.EqualValues(e, 1, f.Timeouts)
		require.EqualValues(e, 2, f.Updates.Failed)
		require.EqualValues(e, 2, f.Prunes.Count, "with the prune at the start")
		require.Zero(e, f.PruneErrors)
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }), reconciler.WithRetry(time.Hour, time.Hour))
}

// A change is counted before a wait for it ends.
func TestChangeIsCountedBeforeItsWaitEnds(t *testing.T) {
	inBubble(t, func(e *env) {
		for n := range uint64(50) {
			until := e.put(1, n)
			_, err := e.loop.Wait(e.Context(), until, reconciler.Applied)
			require.NoError(e, err)
			require.Equal(e, n+1, e.loop.Figures().Updates.Done)
		}
	}, nil)
}
