// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestSweepBeyondItsBudgetDeletesNothing(t *testing.T) {
	for _, c := range []struct {
		name           string
		objects        int
		fraction       float64
		wanted, strays uint64
		refused        string
	}{
		{"exactly the budget", 3, 0, 10, 3, ""},
		{"one too many", 3, 0, 10, 4, "the table has no row for 4 of the 14 objects in the target, more than the budget of 3 objects: "},
		{"exactly the fraction", 0, 0.25, 9, 3, ""},
		{"more than the fraction", 0, 0.25, 8, 3, "the table has no row for 3 of the 11 objects in the target, more than the budget of 25 % of them: "},
		{"both limits, too many objects", 3, 0.9, 10, 4, "the table has no row for 4 of the 14 objects in the target, more than the budget of 3 objects: "},
		{"both limits, too large a fraction", 30, 0.1, 10, 4, "the table has no row for 4 of the 14 objects in the target, more than the budget of 10 % of them: "},
		{"all objects, with an empty table", 0, 0.9, 0, 4, "the table has no row for 4 of the 4 objects"},
		{"without a budget", 0, 0, 0, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put(1, ids(1, c.wanted)...)
				e.pass(time.Second)
				e.target.take()
				e.target.strays(ids(101, 100+c.strays)...)
				record := e.sweep()
				e.pass(10 * time.Millisecond)
				level, message, err := e.health.Now()
				if c.refused == "" {
					require.Empty(e, record.Error)
					require.EqualValues(e, c.strays, record.Swept)
					require.Len(e, e.target.ops(), int(c.strays))
					require.Equal(e, cell.StatusOK, level)
					return
				}
				require.Contains(e, record.Error, c.refused)
				require.EqualValues(e, c.wanted+c.strays, record.Listed)
				require.Zero(e, record.Swept)
				require.Empty(e, e.target.ops())
				require.Equal(e, cell.StatusDegraded, level)
				require.Equal(e, "a sweep awaits approval", message)
				require.EqualError(e, err, "prune: "+record.Error)
				require.ErrorContains(e, err, "nothing is deleted until a person approves it: "+
					"with the command reconciler/approve, the button \"Approve sweep\" of the page, or Loop.ApproveSweep")
			}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Sweeper = &lister{target: e.target} },
				reconciler.WithSweepBudget(c.objects, c.fraction))
		})
	}
}

func TestBudgetCountsAnObjectOnceHoweverOftenItIsListed(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(1, 2, 3)
		s.twice = true
		record := e.sweep()
		require.Equal(e, inspect.Prune{Listed: 6, Swept: 3}, *record)
	}, reconciler.WithSweepBudget(3, 0))
}

func TestRefusedSweepStaysInHealthUntilItIsApproved(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		e.put(1, ids(1, 10)...)
		e.pass(time.Second)
		s.strays(101, 102, 103)
		e.sweep()
		e.put(2, ids(1, 10)...)
		e.pass(10 * time.Minute)
		require.Len(e, s.holds(), 13, "the sweep ran again, and was refused")
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level, "whatever else happens")

		s.take()
		e.loop.ApproveSweep()
		e.pass(time.Second)
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, []string{"delete(101)", "delete(102)", "delete(103)"}, s.ops())
		e.eachDone()

		s.strays(101, 102, 103)
		record := e.sweep()
		require.Contains(e, record.Error, "the table has no row for 3 of the 13 objects", "the approval was for one sweep")
	}, reconciler.WithSweepBudget(2, 0))
}

func TestSweepWithinBudgetClearsARefusedOne(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(101, 102, 103)
		e.sweep()
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		// The sources of the table have caught up with the target.
		e.put(1, 101, 102)
		e.pass(time.Minute)
		level, _, _ = e.health.Now()
		require.Equal(e, cell.StatusOK, level)
		require.Equal(e, map[uint64]int{101: 1, 102: 1}, s.holds())
	}, reconciler.WithSweepBudget(2, 0))
}

func TestApprovalHoldsUntilAListingSucceeds(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		s.strays(101, 102, 103)
		e.sweep()
		s.failing("no route")
		require.True(e, e.loop.ApproveSweep())
		synctest.Wait()
		require.Contains(e, e.swept().Error, "no route")
		require.Len(e, s.holds(), 3)
		s.failing("")
		e.pass(time.Minute)
		require.Empty(e, s.holds())
	}, reconciler.WithSweepBudget(2, 0))
}

// An approval is for the figures of a refused sweep. It does not apply to a later sweep.
func TestNothingIsApprovedBeforeASweepHasStopped(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		require.False(e, e.loop.ApproveSweep())
		s.strays(101, 102, 103)
		e.sweep()
		require.Len(e, s.holds(), 3)
		require.True(e, e.loop.ApproveSweep())
		synctest.Wait()
		require.Empty(e, s.holds())
		require.False(e, e.loop.ApproveSweep(), "the approved sweep has run")

		s.strays(101, 102, 103)
		e.sweep()
		e.put(1, 101, 102)
		e.sweep()
		require.False(e, e.loop.ApproveSweep(), "the next sweep was within its budget")
		s.strays(104, 105, 106)
		e.sweep()
		require.Subset(e, s.holds(), map[uint64]int{104: -1, 105: -1, 106: -1})
	}, reconciler.WithSweepBudget(2, 0))
}

func TestApprovalWithoutASweeperDoesNothing(t *testing.T) {
	inBubble(t, func(e *env) {
		require.False(e, e.loop.ApproveSweep())
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
	}, nil)
}

// An object that the program deleted is no orphan and does not count for the budget, however late
// the loop reads the deletion.
func TestUnobservedDeletionsDoNotCountForTheBudget(t *testing.T) {
	sweeping(t, func(e *env, s *lister) {
		const n = 2000
		e.put(1, ids(1, n)...)
		e.pass(time.Minute)
		e.target.take()
		s.strays(n + 1)
		// The loop is busy while the rows are deleted, and then sweeps.
		e.target.takes(10 * time.Millisecond)
		e.put(2, ids(1, 100)...)
		e.pass(time.Millisecond)
		e.remove(ids(501, n)...)
		e.loop.Prune()
		e.pass(time.Minute)
		require.Equal(e, 1, e.swept().Swept, e.swept().Error)
		e.target.takes(0)
		e.pass(time.Minute)
		e.eachDone()
		for id, times := range countDeletes(e.target.take()) {
			require.Equal(e, 1, times, "object %d", id)
		}
		for _, report := range e.health.History() {
			require.NotContains(e, report, "Degraded")
		}
	}, reconciler.WithSweepBudget(10, 0), reconciler.WithRoundLimits(100, nil))
}

// countDeletes returns the number of deletions of each object.
func countDeletes(calls []call) map[uint64]int {
	times := map[uint64]int{}
	for _, c := range calls {
		if c.op == "delete" {
			times[c.id]++
		}
	}
	return times
}
