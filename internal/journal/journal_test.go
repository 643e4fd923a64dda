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

func newWritten() *written { return &written{Journal: New[int](strconv.Itoa)} }

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

func keysOf(events []inspect.Operation) string {
	var keys []string
	for _, e := range events {
		keys = append(keys, fmt.Sprintf("%d:%s", e.Round, e.Key))
	}
	return strings.Join(keys, " ")
}

func TestJournalReturnsOperationsInOrder(t *testing.T) {
	w := newWritten()
	w.round(1, 2)
	w.round()
	w.round(1, -3)
	events := w.Operations(nil, time.Time{}, 0)
	require.Equal(t, "1:1 1:2 3:1 3:3", keysOf(events))
	require.Equal(t, inspect.Operation{
		Round: 3, Started: startOf(3),
		Key: "3", Op: "update", Cause: inspect.CauseChange, Attempt: 1, Result: inspect.ResultFailed, Error: "no 3",
	}, events[3])
	events = w.Operations(nil, time.Time{}, 3)
	require.Equal(t, "1:2 3:1 3:3", keysOf(events))
	events = w.Operations(nil, startOf(2), 0)
	require.Equal(t, "3:1 3:3", keysOf(events))
	events = w.Operations(func(object int) bool { return object == 1 }, time.Time{}, 0)
	require.Equal(t, "1:1 3:1", keysOf(events))

	rounds := w.Rounds()
	require.Len(t, rounds, 3)
	require.Len(t, rounds[0].Operations, 2)
	require.Empty(t, rounds[1].Operations)
	require.Equal(t, "3", rounds[2].Operations[1].Key)
	require.Zero(t, rounds[2].Operations[1].Round)
	require.Zero(t, rounds[2].Operations[1].Started)
}

// The rings forget the oldest rounds and operations, and an operation with its round.
func TestJournalForgetsTheOldest(t *testing.T) {
	w := newWritten()
	for range MaxRounds {
		w.round(1)
	}
	w.round(-2)
	rounds := w.Rounds()
	require.Len(t, rounds, MaxRounds)
	require.EqualValues(t, 2, rounds[0].Sequence)
	require.Equal(t, "2", rounds[MaxRounds-1].Operations[0].Key)
	require.Len(t, w.Operations(nil, time.Time{}, 0), MaxRounds)

	w.round(make([]int, MaxOperations-1)...)
	require.Equal(t, "129:2", keysOf(w.Operations(func(object int) bool { return object > 0 }, time.Time{}, 0)))
	w.round(3)
	require.Equal(t, "131:3", keysOf(w.Operations(func(object int) bool { return object > 0 }, time.Time{}, 0)))
	require.Empty(t, w.Rounds()[MaxRounds-3].Operations)
}

// A reader may come while rounds are added.
func TestRoundsHaveTheirOwnOperations(t *testing.T) {
	w := newWritten()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 3 * MaxOperations {
			w.round(n + 1)
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		for _, r := range w.Rounds() {
			if len(r.Operations) > 0 {
				require.Equal(t, fmt.Sprint(r.Sequence), r.Operations[0].Key)
			}
		}
	}
}

func TestAddingAllocatesNothing(t *testing.T) {
	j := New[int](strconv.Itoa)
	r, ops := inspect.Round{}, make([]core.Operation[int], 100)
	require.Zero(t, testing.AllocsPerRun(1000, func() { j.Add(&r, ops) }))
}

// The core's states, causes and kinds of outcomes must have the names of package inspect.
func TestCoreAndInspectUseTheSameNames(t *testing.T) {
	states := []inspect.State{
		core.Taken: inspect.StateReady, core.Ready: inspect.StateReady, core.InFlight: inspect.StateInFlight,
		core.Queued: inspect.StateQueued, core.Paused: inspect.StatePaused, core.Unseen: inspect.StateUnseen, core.Held: inspect.StateHeld,
		core.Retry: inspect.StateRetry, core.Requeue: inspect.StateRequeue, core.Blocked: inspect.StateBlocked, core.Terminal: inspect.StateTerminal,
	}
	require.Len(t, states, int(core.NumStates))
	for state, shown := range states {
		require.Equal(t, string(shown), core.State(state).String())
	}
	for cause, shown := range map[core.Cause]inspect.Cause{
		core.CauseChange: inspect.CauseChange, core.CauseRefresh: inspect.CauseRefresh, core.CauseRetry: inspect.CauseRetry,
		core.CauseRequeue: inspect.CauseRequeue, core.CauseReleased: inspect.CauseReleased, core.CauseRecheck: inspect.CauseRecheck,
		core.CauseProbe: inspect.CauseProbe, core.CauseBreaker: inspect.CauseBreaker, core.CauseResumed: inspect.CauseResumed,
		core.CauseCall: inspect.CauseCall, core.CauseOrphan: inspect.CauseOrphan, core.CauseRepair: inspect.CauseRepair,
		core.CauseAdopted: inspect.CauseAdopted, core.CauseVerify: inspect.CauseVerify,
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
