// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package fights

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

type row struct{ key string }

// world plays the loop for some keys.
type world struct {
	*testing.T
	*Fights[row]
	now time.Duration
}

func play(t *testing.T, looks bool) *world {
	return &world{T: t, Fights: New(looks, func(r row) []byte { return []byte(r.key) }, func() Settings {
		return Settings{MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, Resync: 5 * time.Minute}
	})}
}

var (
	right   = core.Sight{Seen: true, Right: true}
	wrong   = core.Sight{Seen: true, Diff: "a, not b"}
	unknown core.Sight
)

// end ends an operation on a key, and returns its error.
func (w *world) end(key string, cause core.Cause, l *core.Look) error {
	w.now += time.Second
	op := core.Operation[row]{Row: row{key}, Turn: core.Turn{Cause: cause}, Run: core.Run{Look: l}, Tries: 7}
	w.End(w.now, &op)
	if w.Equal(op.Run.Err != nil, op.Run.Worked); op.Run.Worked {
		require.Zero(w, op.Tries, "it is never given up")
	}
	return op.Run.Err
}

func (w *world) Equal(want, got any) { w.Helper(); require.Equal(w, want, got) }

// repair ends a repair that has worked.
func (w *world) repair(key string, after core.Sight) error {
	return w.end(key, core.CauseVerify, &core.Look{Before: wrong, After: after})
}

// found ends an operation that has found the target right.
func (w *world) found(key string) error {
	return w.end(key, core.CauseRetry, &core.Look{Before: right})
}

func TestKeyIsContendedAfterFiveRepairsThatWereUndone(t *testing.T) {
	w := play(t, true)
	for range contends {
		require.NoError(t, w.repair("a", right))
		require.NoError(t, w.found("a"), "the echo of the repair")
	}
	require.False(t, w.Contends(row{"a"}))
	require.ErrorContains(t, w.repair("a", right), "contended: after each of the last 5 repairs, which had worked, somebody has changed it back, the last time to a, not b")
	require.True(t, w.Contends(row{"a"}))
	require.Equal(t, 1, w.Len())
	require.ErrorContains(t, w.found("a"), "contended: ", "it may be too early")
	require.ErrorContains(t, w.repair("a", right), "the last 6 repairs")
	w.now += time.Minute
	require.NoError(t, w.found("a"))
	require.Zero(t, w.Len())
	require.NoError(t, w.repair("a", right))
}

// The other program is now and then faster than the look after the repair.
func TestFightGoesOnWhenALookComesTooLate(t *testing.T) {
	w := play(t, true)
	for range contends {
		require.NoError(t, w.repair("a", right))
	}
	for i := range 3 * contends {
		after := right
		if i%3 == 1 {
			after = wrong
		}
		require.ErrorContains(t, w.repair("a", after), "contended: ")
	}
	for i := range 2 * contends {
		after := right
		if i%2 == 1 {
			after = wrong
		}
		_ = w.repair("b", after)
	}
	require.ErrorContains(t, w.repair("b", right), "contended: ")
}

func TestRepairThatHeldForAWhileEndsTheCount(t *testing.T) {
	w := play(t, true)
	for range 4 * contends {
		require.NoError(t, w.repair("a", right))
		w.now += 31 * time.Second
		require.NoError(t, w.found("a"))
	}
	// No look comes in between, and it is long.
	for range 4 * contends {
		require.NoError(t, w.repair("b", right))
		w.now += 11 * time.Minute
	}
	// Another version of the row is wanted each time.
	for range 4 * contends {
		require.NoError(t, w.repair("c", right))
		require.NoError(t, w.end("c", core.CauseChange, nil))
	}
	// A look that fails shows nothing.
	for range 4 * contends {
		require.NoError(t, w.repair("d", unknown))
	}
	require.Zero(t, w.Len())
}

func TestRepairIsIneffectiveIfTwoLooksFindItWrong(t *testing.T) {
	w := play(t, true)
	require.False(t, w.Doubts(row{"a"}))
	err := w.repair("a", wrong)
	require.True(t, outcome.Is(err, core.DoneAgain), "the next look is soon: %v", err)
	require.True(t, w.Doubts(row{"a"}))
	require.Zero(t, w.Len())
	require.EqualError(t, w.repair("a", wrong), "applied, but the target has a, not b")
	require.Equal(t, 1, w.Len())
	require.EqualError(t, w.repair("a", wrong), "applied, but the target has a, not b")
	require.False(t, w.Contends(row{"a"}))
	require.NoError(t, w.found("a"))
	require.Zero(t, w.Len())
	err = w.repair("a", wrong)
	require.True(t, outcome.Is(err, core.DoneAgain))
	require.NoError(t, w.repair("a", right))
	require.Zero(t, w.Len())
}

// Only resyncs look.
func TestRepairsDoNotHoldAfterThreeResyncs(t *testing.T) {
	w := play(t, false)
	for range recurs {
		require.NoError(t, w.end("a", core.CauseRepair, nil))
		w.Judge(w.now, "a", true)
		w.Judge(w.now, "a", true)
	}
	err := w.end("a", core.CauseRepair, nil)
	require.ErrorContains(t, err, "repairs do not hold: it was different or missing again after each of its last 3 repairs: ")
	require.Equal(t, 5*time.Minute, outcome.Of(err).Delay, "a retry sees nothing: it waits for a resync")
	require.Error(t, w.end("a", core.CauseRetry, nil))
	require.Equal(t, 1, w.Len())
	w.Judge(w.now, "a", false)
	require.Zero(t, w.Len())
	require.NoError(t, w.end("a", core.CauseRetry, nil))
	for range recurs {
		require.NoError(t, w.end("b", core.CauseRepair, nil))
		w.Judge(w.now, "b", true)
	}
	require.Error(t, w.end("b", core.CauseRepair, nil))
	require.NoError(t, w.end("b", core.CauseAdopted, &core.Look{Before: right}), "a resync has found it right")
	require.Zero(t, w.Len())
}

// The requeue that a doubt has asked for looks, even if another look was right meanwhile.
func TestDoubtIsOverWhenItsRequeueHasLooked(t *testing.T) {
	w := play(t, true)
	require.Error(t, w.repair("a", wrong))
	require.NoError(t, w.found("a"))
	require.True(t, w.Doubts(row{"a"}))
	require.NoError(t, w.end("a", core.CauseRequeue, &core.Look{Before: right}))
	require.False(t, w.Doubts(row{"a"}))
}

// An operation that was done and asks for another run is a repair like any other, and is not called more often.
func TestRepairThatPollsCounts(t *testing.T) {
	w := play(t, true)
	poll := outcome.Requeue(10 * time.Second)
	end := func(cause core.Cause, l *core.Look) error {
		w.now += time.Second
		op := core.Operation[row]{Row: row{"a"}, Turn: core.Turn{Cause: cause}, Run: core.Run{Err: poll, Polls: true, Look: l}}
		w.End(w.now, &op)
		return op.Run.Err
	}
	for range contends {
		require.Equal(t, poll, end(core.CauseVerify, &core.Look{Before: wrong, After: right}))
		require.Equal(t, poll, end(core.CauseRequeue, nil), "the poll")
	}
	require.ErrorContains(t, end(core.CauseVerify, &core.Look{Before: wrong, After: right}), "contended: ")
	w = play(t, true)
	require.Equal(t, poll, end(core.CauseVerify, &core.Look{Before: wrong, After: wrong}))
	require.True(t, w.Doubts(row{"a"}))
	require.EqualError(t, end(core.CauseRequeue, &core.Look{Before: wrong, After: wrong}), "applied, but the target has a, not b")
}

// Repairs of a contended key come ever more seldom, and it is looked at when it may be over.
func TestContendedKeyIsRetriedWithinHalfTheMaximumBackoff(t *testing.T) {
	w := play(t, true)
	for range contends {
		require.NoError(t, w.repair("a", right))
	}
	require.Equal(t, 100*time.Millisecond, outcome.Of(w.repair("a", right)).Delay)
	require.Equal(t, 29*time.Second, outcome.Of(w.found("a")).Delay)
	w.now += 28 * time.Second
	require.NoError(t, w.found("a"))
}

// A failure of its own, a change or a call that somebody asks for ends a fight: nothing else would.
func TestOtherOutcomesEndAFight(t *testing.T) {
	fight := func() *world {
		w := play(t, true)
		for range contends + 1 {
			_ = w.repair("a", right)
		}
		require.Equal(t, 1, w.Len())
		return w
	}
	w := fight()
	require.NoError(t, w.end("a", core.CauseRefresh, nil))
	require.Zero(t, w.Len())
	w = fight()
	require.NoError(t, w.end("a", core.CauseChange, nil))
	require.Zero(t, w.Len())
	w = fight()
	op := core.Operation[row]{Row: row{"a"}, Turn: core.Turn{Cause: core.CauseRetry}, Run: core.Run{Err: errors.New("down"), Look: &core.Look{Before: wrong}}}
	w.End(w.now, &op)
	require.EqualError(t, op.Run.Err, "down")
	require.False(t, op.Run.Worked)
	require.False(t, w.Contends(row{"a"}))
	require.ErrorContains(t, w.repair("a", right), "contended: ", "it goes on")
}

// Operations that are no repairs, and fail or only look, are no fights.
func TestOtherOperationsAreNotRemembered(t *testing.T) {
	for _, looks := range []bool{false, true} {
		w := play(t, looks)
		for range 10 {
			require.NoError(t, w.end("a", core.CauseChange, nil))
			require.NoError(t, w.end("b", core.CauseRefresh, nil))
			require.NoError(t, w.end("c", core.CauseRetry, &core.Look{Before: wrong, After: wrong}))
			require.NoError(t, w.end("d", core.CauseVerify, &core.Look{Before: right}))
		}
		require.Empty(t, w.keys)
	}
}

// A flush of the target is repaired, and a fight in the middle of it is seen all the same.
func TestMemoryIsBoundedAndAFightIsNotForgotten(t *testing.T) {
	w := play(t, true)
	for range contends + 1 {
		_ = w.repair("fight", right)
	}
	require.Equal(t, 1, w.Len())
	for i := range 10 * maxKeys {
		require.NoError(t, w.repair(strconv.Itoa(i), right))
		require.LessOrEqual(t, len(w.keys), maxKeys)
	}
	require.True(t, w.Contends(row{"fight"}))
	require.Equal(t, 1, w.Len())
	for i := range 2 * maxKeys {
		for range contends + 1 {
			_ = w.repair("f"+strconv.Itoa(i), right)
		}
	}
	require.Len(t, w.keys, maxKeys)
	require.Equal(t, maxKeys, w.Len())
	require.NoError(t, w.repair("other", right), "there is no room")
}
