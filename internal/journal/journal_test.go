// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// written is a journal of numbers, in which each round begins a second after the last one.
type written struct {
	*Journal[int]
	sequence uint64
}

func newWritten(rounds, operations int) *written {
	return &written{Journal: New[int](rounds, operations, strconv.Itoa)}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func startOf(sequence uint64) time.Time { return epoch.Add(time.Duration(sequence) * time.Second) }

// round adds a round of operations: negative numbers fail.
func (w *written) round(objects ...int) {
	w.sequence++
	var ops []core.Operation[int]
	for _, object := range objects {
		var op core.Operation[int]
		op.Outcome.Object = max(object, -object)
		if object < 0 {
			text := fmt.Sprint("no ", -object)
			op.Outcome.Text, op.Outcome.Kind = &text, core.Failed
		}
		ops = append(ops, op)
	}
	w.Add(&inspect.Round{Sequence: w.sequence, Started: startOf(w.sequence), Operations: []inspect.Operation{{}}}, ops)
}

func keysOf(events []inspect.Event) string {
	var keys []string
	for _, e := range events {
		keys = append(keys, fmt.Sprintf("%d:%s", e.Round, e.Key))
	}
	return strings.Join(keys, " ")
}

func TestJournalReturnsOperationsInOrder(t *testing.T) {
	w := newWritten(10, 10)
	w.round(1, 2)
	w.round()
	w.round(1, -3)
	events, complete := w.Events(nil, time.Time{}, 0)
	require.Equal(t, "1:1 1:2 3:1 3:3", keysOf(events))
	require.True(t, complete)
	require.Equal(t, inspect.Event{
		Round: 3, Started: startOf(3),
		Operation: inspect.Operation{Key: "3", Op: "update", Cause: inspect.CauseChange, Attempt: 1, Result: inspect.ResultFailed, Error: "no 3"},
	}, events[3])
	events, _ = w.Events(nil, time.Time{}, 3)
	require.Equal(t, "1:2 3:1 3:3", keysOf(events))
	events, _ = w.Events(nil, startOf(2), 0)
	require.Equal(t, "3:1 3:3", keysOf(events))
	events, _ = w.Events(func(object int) bool { return object == 1 }, time.Time{}, 0)
	require.Equal(t, "1:1 3:1", keysOf(events))

	rounds := w.Rounds()
	require.Len(t, rounds, 3)
	require.Len(t, rounds[0].Operations, 2)
	require.Empty(t, rounds[1].Operations)
	require.Equal(t, "3", rounds[2].Operations[1].Key)
}

// Failures are kept when the rings no longer have them.
func TestJournalKeepsFailuresForLonger(t *testing.T) {
	w := newWritten(3, 4)
	w.round(-1, 2)
	for range 3 {
		w.round(3, 4)
	}
	events, complete := w.Events(nil, time.Time{}, 0)
	require.Equal(t, "1:1 3:3 3:4 4:3 4:4", keysOf(events))
	require.True(t, complete)
	events, complete = w.Events(func(object int) bool { return object == 1 }, time.Time{}, 0)
	require.Equal(t, "1:1", keysOf(events))
	require.False(t, complete, "it may have been run since")
	require.Len(t, w.Rounds(), 3)
}

func TestJournalMayHaveNoRoundsOrNoOperations(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {0, 10}, {10, 0}} {
		w := newWritten(size[0], size[1])
		w.round(1, -2)
		events, complete := w.Events(nil, time.Time{}, 0)
		require.Empty(t, events)
		require.False(t, complete)
		require.Len(t, w.Rounds(), min(size[0], 1))
	}
}

// Keeping failures for longer costs nothing for operations that succeed.
func TestJournalOfSuccessesAllocatesNothing(t *testing.T) {
	j := New[int](128, 1024, strconv.Itoa)
	r, ops := inspect.Round{}, make([]core.Operation[int], 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() { j.Add(&r, ops) }))
}

// The journal keeps no memory of the failures that it has dropped, and does not grow with their
// number.
func TestKeptFailuresDoNotGrow(t *testing.T) {
	f := failures[int]{most: 100}
	text := "no"
	for n := range uint64(10_000) {
		f.add(placed[int]{entry[int]{Text: &text}, n, 1, time.Time{}})
		require.LessOrEqual(t, cap(f.latest), 1000)
	}
	require.Len(t, f.latest, 100)
	require.Equal(t, 200, f.bytes)
	require.Len(t, f.between(9_990, 20_000), 10)
	require.Empty(t, f.between(0, 9_900))

	long := strings.Repeat("x", maxFailureText/10)
	for n := range uint64(1_000) {
		f.add(placed[int]{entry[int]{Text: &long}, 10_000 + n, 1, time.Time{}})
	}
	require.Len(t, f.latest, 10, "of long texts there are fewer")
}

// The core's causes and kinds of outcomes must have the names of package inspect.
func TestCoreAndInspectUseTheSameNames(t *testing.T) {
	for cause, shown := range map[core.Cause]inspect.Cause{
		core.CauseChange: inspect.CauseChange, core.CauseRefresh: inspect.CauseRefresh, core.CauseRetry: inspect.CauseRetry,
		core.CauseRequeue: inspect.CauseRequeue, core.CauseReleased: inspect.CauseReleased, core.CauseRecheck: inspect.CauseRecheck,
		core.CauseProbe: inspect.CauseProbe, core.CauseBreaker: inspect.CauseBreaker, core.CauseResumed: inspect.CauseResumed,
		core.CauseCall: inspect.CauseCall, core.CauseOrphan: inspect.CauseOrphan,
	} {
		require.Equal(t, string(shown), cause.String())
	}
	for kind, shown := range map[core.Kind]inspect.Result{
		core.Done: inspect.ResultDone, core.Failed: inspect.ResultFailed, core.FailedForGood: inspect.ResultTerminal,
		core.BlockedOn: inspect.ResultBlocked, core.DoneAgain: inspect.ResultRequeue, core.Deleting: inspect.ResultBlocked,
	} {
		require.Equal(t, string(shown), kind.String())
	}
}
