// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// insertAs inserts a row under one name, and then gives it another, as a program with a bug does that changes
// a row in the table: the index makes a key of the row then that finds nothing.
func insertAs(e *reconcilertest.Env[*named], key string, row *named) {
	name := row.Name
	e.Write(func(wtxn statedb.WriteTxn) {
		row.Name = key
		_, _, err := e.Table.Insert(wtxn, row)
		require.NoError(e, err, "statedb inserts it and says nothing")
		row.Name = name
	})
}

// requireUnfound requires that a row which no look-up finds is reported everywhere, and that the others of the
// table are applied.
func requireUnfound(e *reconcilertest.Env[*named], row *named, why string) {
	_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{Name: "a"}, &named{Name: "b"})
	require.NoError(e, err)
	rest, err := e.Loop.WaitAll(e.Context(), reconciler.Attempted)
	require.NoError(e, err)
	require.Len(e, rest.Keys, 1)
	require.ErrorContains(e, rest.Keys[0].Err, why)

	x := e.Loop.Explain(e.Context(), row.Name)
	require.Contains(e, x.Error, why)
	level, _, told := e.Health.Scope("reconcile").Now()
	require.Equal(e, cell.StatusDegraded, level)
	require.ErrorContains(e, told, why)

	briefly, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	rest, err = e.Loop.WaitAll(briefly, reconciler.Applied)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.Len(e, rest.Keys, 1)
	require.ErrorContains(e, rest.Keys[0].Err, why)
}

func TestObjectWithATooLongKeyIsNamedAndGivenUp(t *testing.T) {
	const why = "the primary key is longer than the 65535 bytes that statedb can look up"
	for _, length := range []int{1 << 16, 1<<16 + 1, 100_000, 1 << 17} {
		eachLedger(t, noNames, func(e *reconcilertest.Env[*named], target *nameTarget) {
			long, longest := wantedName(strings.Repeat("x", length)), wantedName(strings.Repeat("y", 1<<16-1))
			e.Insert(wantedName("a"), longest)
			insertAs(e, long.Name, long)
			e.Insert(wantedName("b"))
			requireUnfound(e, long, why)
			require.Equal(e, inspect.StateTerminal, e.Loop.Explain(e.Context(), long.Name).State)
			_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, longest)
			require.NoError(e, err)
			require.Equal(e, e.Loop.Outcomes() == nil, target.holds(long.Name), "in the rows only the write shows it")

			_, err = e.Loop.WaitFor(e.Context(), reconciler.Attempted, wantedName("a"), long)
			require.ErrorContains(e, err, "object 1 of 2 to wait for: "+why)
			_, err = e.Loop.WaitKey(e.Context(), long.Name, reconciler.Attempted)
			require.ErrorContains(e, err, why)
			target.take()
			_, err = e.Loop.Reapply(e.Context(), long, &named{Name: "b"})
			require.ErrorContains(e, err, "object 0 of 2 to apply again: "+why)
			synctest.Wait()
			require.Equal(e, []string{"b"}, target.take())
			if e.Loop.Outcomes() == nil {
				return // the target lists it twice: it has the object, too
			}
			target.list(long.Name)
			e.Loop.Prune()
			time.Sleep(time.Second)
			require.Contains(e, e.Loop.Snapshot(e.Context()).PruneFailure, "1 of 4 listed objects are left alone: "+why)

			require.Zero(e, e.Loop.Outcomes().NumObjects(e.DB.ReadTxn()), "an outcome could not be removed again")
			page, err := e.Loop.Objects(e.Context(), inspect.ObjectQuery{Status: "Error"})
			require.NoError(e, err)
			require.Len(e, page.Objects, 1)
			require.Contains(e, page.Objects[0].Error, why)
		})
	}
}

func TestRowThatNoLookUpFindsIsNamed(t *testing.T) {
	why := "the table has the row, but a look-up by its key does not find it"
	failing := func() *nameTarget {
		return &nameTarget{has: map[string]bool{}, fails: map[string]error{"other": errors.New("no")}}
	}
	eachLedger(t, failing, func(e *reconcilertest.Env[*named], target *nameTarget) {
		e.Insert(wantedName("a"))
		row := wantedName("other")
		insertAs(e, "name", row)
		e.Insert(wantedName("b"))
		if time.Sleep(time.Second); e.Loop.Outcomes() != nil {
			// Nothing is written into the row: it fails, and is applied, as any other.
			why = "no"
		} else {
			require.Equal(e, []string{"a", "other", "b"}, target.take(), "it is not tried for ever")
			_, err := e.Loop.Retry(e.Context(), "other")
			require.NoError(e, err)
			synctest.Wait()
			require.Equal(e, []string{"other"}, target.take())
		}
		requireUnfound(e, row, why)

		briefly, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		rest, err := e.Loop.WaitFor(briefly, reconciler.Applied, row)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Len(e, rest.Keys, 1)
		require.ErrorContains(e, rest.Keys[0].Err, why)
	})
}

func TestOutcomeOfARowThatNoLookUpFindsIsNotLost(t *testing.T) {
	eachLedger(t, noNames, func(e *reconcilertest.Env[*named], _ *nameTarget) {
		if e.Loop.Outcomes() != nil {
			return // a success needs no row
		}
		insertAs(e, "name", wantedName("other"))
		synctest.Wait()
		require.Zero(e, e.Loop.Figures().Lost, "it was not changed meanwhile")
		require.Equal(e, inspect.StateTerminal, e.Loop.Explain(e.Context(), "other").State)
	})
}
