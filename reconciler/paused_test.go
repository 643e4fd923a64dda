// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The pause of an object that is Done is shown in Snapshot, by key, and in Explain.
func TestPauseOfADoneObjectIsShown(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 200)...)
		e.pass(time.Second)
		require.NoError(e, e.loop.PauseOnly("7", "3", `"3"`))
		x := e.loop.Snapshot(e.Context())
		require.Equal(e, []string{"3", "7"}, x.Paused)
		require.Contains(e, x.Summary(), "2 object(s) paused")
		require.Contains(e, x.String(), "paused")
		note := "the object is paused: what changes about it waits until it is resumed"
		require.Contains(e, e.loop.Explain(e.Context(), "3").Notes, note)
		require.Equal(e, inspect.StateDone, e.loop.Explain(e.Context(), "3").State)
		require.NotContains(e, e.loop.Explain(e.Context(), "4").Notes, note)

		e.loop.PauseObjects(only(4))
		require.NotContains(e, e.loop.Explain(e.Context(), "3").Notes, note, "the later pause replaces the earlier")
		require.Contains(e, e.loop.Explain(e.Context(), "4").Notes, note)
		x = e.loop.Snapshot(e.Context())
		require.True(e, x.PausedByPredicate)
		require.Empty(e, x.Paused)
		require.Contains(e, x.Summary(), "objects paused by PauseObjects")

		e.loop.Resume()
		x = e.loop.Snapshot(e.Context())
		require.Empty(e, x.Paused)
		require.False(e, x.PausedByPredicate)
		require.NotContains(e, x.Summary(), "paused")

		var keys []string
		for id := range uint64(inspect.MaxKeys) {
			keys = append(keys, strconv.FormatUint(id, 10))
		}
		require.NoError(e, e.loop.PauseOnly(keys...))
		require.Equal(e, keys, e.loop.Snapshot(e.Context()).Paused)
		require.EqualError(e, e.loop.PauseOnly(append(keys, "a")...), "1001 keys are too many for one call: at most 1000")
	})
}

// A sweep budget without a Sweeper is an error.
func TestSweepBudgetNeedsASweeper(t *testing.T) {
	e := newEnv(t)
	_, err := reconciler.New(e.config(reconciler.WithSweepBudget(10, 0)))
	require.ErrorContains(t, err, "WithSweepBudget: 10 objects and fraction 0, but Config.Sweeper is nil")
}

// A registry lists the running reconcilers only.
func TestRegistryListsOnlyRunningReconcilers(t *testing.T) {
	var registry inspect.Registry
	inBubble(t, func(e *env) {
		require.Equal(e, []inspect.Controller{e.loop}, registry.All())
		loop, err := reconciler.New(e.config(reconciler.WithRegistry(&registry)))
		require.NoError(e, err)
		require.Len(e, registry.All(), 1)
		registry.Add(loop)
		require.Len(e, registry.All(), 2)
		registry.Remove(loop)
		registry.Remove(loop)
		require.Len(e, registry.All(), 1)
	}, nil, reconciler.WithRegistry(&registry))
	require.Empty(t, registry.All())
}

// Logs and errors call a reconciler without a name by its module and table.
func TestReconcilerWithoutANameIsCalledByItsID(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(time.Second)
		require.Contains(e, e.Logged(), "reconciler=objects")
		require.ErrorContains(e, e.loop.Run(e.Context()), `reconciler "objects" has been run already`)
		e.target.failing("")
		e.pass(time.Minute)
	}, nil)
}
