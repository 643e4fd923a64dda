// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pauses_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type row struct{ Name string }

func (r *row) TableHeader() []string { return []string{"Name"} }
func (r *row) TableRow() []string    { return []string{r.Name} }

// run runs a test with the rows a, b and c, and a loop that applies them.
func run(t *testing.T, test func(e *reconcilertest.Env[*row], loop *reconciler.Loop[*row])) {
	newRows := func(db *statedb.DB) (statedb.RWTable[*row], error) {
		return statedb.NewTable(db, "rows", statedb.Index[*row, string]{
			Name: "name", Unique: true, FromKey: index.String,
			FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
		})
	}
	reconcilertest.Run(t, newRows, func(e *reconcilertest.Env[*row]) {
		e.Insert(&row{"a"}, &row{"b"}, &row{"c"})
		loop := e.Start(reconciler.Config[*row]{
			Operations: reconcilertest.NewTarget(func(r *row) string { return r.Name }, nil),
		})
		test(e, loop)
	})
}

func TestPausesOfKeysAddUp(t *testing.T) {
	run(t, func(e *reconcilertest.Env[*row], loop *reconciler.Loop[*row]) {
		ctx := e.Context()
		paused := func() []string { return loop.Snapshot(ctx).Paused }
		require.NoError(e, pauses.Add(ctx, loop, "b", `"b"`, "0x62"))
		require.NoError(e, pauses.Add(ctx, loop, "c", "a"))
		require.Equal(e, []string{"a", "b", "c"}, paused())
		require.NoError(e, pauses.Remove(ctx, loop, "0x62", "b"))
		require.Equal(e, []string{"a", "c"}, paused())
		require.EqualError(e, pauses.Remove(ctx, loop, "a", "b"), "object b is not paused by its key")
		require.Equal(e, []string{"a", "c"}, paused(), "nothing is resumed")
		require.NoError(e, pauses.Remove(ctx, loop, "a", "c"))
		require.Empty(e, paused())
	})
}

func TestMistypedKeyPausesNothing(t *testing.T) {
	run(t, func(e *reconcilertest.Env[*row], loop *reconciler.Loop[*row]) {
		err := pauses.Add(e.Context(), loop, "a", "no\n"+strings.Repeat("x", 1000))
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, ": not in the table, and nothing is left to be done for it")
		require.NotContains(e, err.Error(), "\n")
		require.Less(e, len(err.Error()), 400)
		require.Empty(e, loop.Snapshot(e.Context()).Paused)
	})
}

func TestRefusedPauseSaysThatADeletionMayBeUnread(t *testing.T) {
	run(t, func(e *reconcilertest.Env[*row], loop *reconciler.Loop[*row]) {
		loop.Pause()
		e.Pass(time.Second)
		e.Delete(&row{"b"})
		e.Pass(time.Second)
		err := pauses.Add(e.Context(), loop, "b")
		require.ErrorIs(e, err, inspect.ErrNotFound)
		require.ErrorContains(e, err, "are unread: if it was deleted since, that is still to come")
	})
}
