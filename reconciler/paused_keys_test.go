// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Package pauses is for the command and the page, whose pauses of single keys add up.
func TestPausesOfKeysAddUp(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2, 3)
		ctx, two := e.Context(), "0x0000000000000002"
		paused := func() []string { return e.loop.Snapshot(ctx).Paused }
		require.NoError(e, pauses.Add(ctx, e.loop, "2", `"2"`, two))
		require.NoError(e, pauses.Add(ctx, e.loop, "3", "1"))
		require.Equal(e, []string{"1", "2", "3"}, paused())
		require.NoError(e, pauses.Remove(ctx, e.loop, two, "2"))
		require.Equal(e, []string{"1", "3"}, paused())
		require.EqualError(e, pauses.Remove(ctx, e.loop, "1", "2"), "object 2 is not paused by its key")
		require.Equal(e, []string{"1", "3"}, paused(), "nothing is resumed")
		require.NoError(e, pauses.Remove(ctx, e.loop, "1", "3"))
		require.Empty(e, paused())
	}, nil)
}

func TestRefusedPauseNamesTheCause(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(0)
		err := pauses.Add(e.Context(), e.loop, "1", "no\n"+strings.Repeat("x", 1000))
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, ": not in the table, and nothing is left to be done for it")
		require.NotContains(e, err.Error(), "\n")
		require.Less(e, len(err.Error()), 400)
		require.Empty(e, e.loop.Snapshot(e.Context()).Paused, "one mistyped key pauses nothing")

		e.loop.Pause()
		e.pass(0)
		e.remove(2)
		err = pauses.Add(e.Context(), e.loop, "2")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, "are unread: if it was deleted since, that is still to come")
	}, nil)
}
