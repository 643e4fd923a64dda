// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Package pauses is for the command and the page, whose pauses of single keys add up.
func TestPausesOfKeysAddUp(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2, 3)
		ctx, two := e.Context(), "0x0000000000000002"
		paused := func() []string { return e.loop.Snapshot(ctx).Paused }
		require.NoError(e, operator.Pause(ctx, e.loop, "2", `"2"`, two))
		require.NoError(e, operator.Pause(ctx, e.loop, "3", "1"))
		require.Equal(e, []string{"1", "2", "3"}, paused())
		require.NoError(e, operator.Resume(ctx, e.loop, two, "2"))
		require.Equal(e, []string{"1", "3"}, paused())
		require.EqualError(e, operator.Resume(ctx, e.loop, "1", "2"), "object 2 is not paused by its key")
		require.Equal(e, []string{"1", "3"}, paused(), "nothing is resumed")
		require.NoError(e, operator.Resume(ctx, e.loop, "1", "3"))
		require.Empty(e, paused())
	}, nil)
}

// interrupted lets others run after it has listed the keys that are paused.
type interrupted struct{ inspect.LoopController }

func (i interrupted) Snapshot(ctx context.Context) inspect.Snapshot {
	defer func() {
		for range 100 {
			runtime.Gosched()
		}
	}()
	return i.LoopController.Snapshot(ctx)
}

func TestPausesOfSeveralOperatorsAddUp(t *testing.T) {
	inBubble(t, func(e *env) {
		const operators = 20
		e.put(1, ids(1, 2*operators)...)
		e.pass(0)
		var all, rest []string
		var changes sync.WaitGroup
		for i := range operators {
			one, other := strconv.Itoa(i+1), strconv.Itoa(operators+i+1)
			all, rest = append(all, one, other), append(rest, one)
			changes.Go(func() {
				require.NoError(e, operator.Pause(e.Context(), interrupted{e.loop}, one))
				require.NoError(e, operator.Pause(e.Context(), interrupted{e.loop}, other))
			})
		}
		changes.Wait()
		require.ElementsMatch(e, all, e.loop.Snapshot(e.Context()).Paused)
		for i := range operators {
			changes.Go(func() {
				require.NoError(e, operator.Resume(e.Context(), interrupted{e.loop}, strconv.Itoa(operators+i+1)))
			})
		}
		changes.Wait()
		require.ElementsMatch(e, rest, e.loop.Snapshot(e.Context()).Paused)
	}, nil)
}

func TestRefusedPauseNamesTheCause(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(0)
		err := operator.Pause(e.Context(), e.loop, "1", "no\n"+strings.Repeat("x", 1000))
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, ": not in the table, and nothing is left to be done for it")
		require.NotContains(e, err.Error(), "\n")
		require.Less(e, len(err.Error()), 400)
		require.Empty(e, e.loop.Snapshot(e.Context()).Paused, "one mistyped key pauses nothing")

		e.loop.Pause()
		e.pass(0)
		e.remove(2)
		err = operator.Pause(e.Context(), e.loop, "2")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, "may be unread: if it was deleted since, that may be still to come")
	}, nil)
}
