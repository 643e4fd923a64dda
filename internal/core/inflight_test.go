// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requeued returns a core whose key "a", at revision 1, is reconciled, and whose next operation was
// launched at 2s.
func requeued(t *testing.T) (*Core[row], *Operation[row]) {
	t.Helper()
	c := small(8)
	first := launchRound(t, c, 0, 8, row{key: "a", revision: 1})
	c.Settle(0, first["a"], Outcome[row]{Kind: DoneAgain, Delay: 2 * time.Second, Object: row{key: "a"}, NewRevision: 1})
	return c, launchRound(t, c, 2*time.Second, 8)["a"]
}

// observe runs a round without room for operations.
func observe(c *Core[row], now time.Duration, changes ...row) {
	c.Begin(now, 0, false)
	for _, r := range changes {
		c.see(r, r.revision, r.deleted, r.byMain())
	}
	c.Plan()
}

// A key that was reconciled, and fails after another writer has set its row to Done, is
// unreconciled.
func TestFailureAfterADoneRowIsUnreconciled(t *testing.T) {
	c, it := requeued(t)
	c.Begin(2*time.Second, 0, false)
	c.ObserveSettled(row{key: "a"}, 7, RowDone)
	out := failed(it, "no")
	out.Lost = true
	c.Settle(3*time.Second, it, out)
	check(t, c)
	require.Equal(t, 1, c.Index.figures.States[Retry])
	require.Equal(t, uint64(8), c.Index.LowWatermark())
	u, ok := c.UnreconciledOf(row{key: "a"})
	require.True(t, ok)
	require.Equal(t, "no", u.Failure)
}

// A key in flight is unreconciled since its latest change, and reconciled if that asks for nothing.
func TestKeyInFlightIsUnreconciledSinceItsLatestChange(t *testing.T) {
	c, it := requeued(t)
	_, ok := c.UnreconciledOf(it.Obj)
	require.False(t, ok, "it is reconciled")
	require.Equal(t, uint64(5), c.Index.Attempted(5))
	for _, revision := range []uint64{3, 4} {
		observe(c, 2*time.Second, row{key: "a", revision: revision})
		check(t, c)
		u, ok := c.UnreconciledOf(it.Obj)
		require.True(t, ok)
		require.Equal(t, revision, u.Since)
		require.Equal(t, InFlight, u.State)
		require.Equal(t, revision, c.Index.LowWatermark())
		require.Equal(t, revision-1, c.Index.Attempted(5))
	}
	c.Begin(2*time.Second, 0, false)
	c.ObserveSettled(row{key: "a"}, 6, RowDone)
	check(t, c)
	_, ok = c.UnreconciledOf(it.Obj)
	require.False(t, ok)
	require.Equal(t, uint64(6), c.Index.Attempted(6))
}

// A change before the write of the status is part of the attempt. A failed operation leaves the key
// unreconciled, as it would without the change.
func TestChangeBeforeTheStatusWriteIsPartOfTheAttempt(t *testing.T) {
	c, it := requeued(t)
	observe(c, 2*time.Second, row{key: "a", revision: 3})
	out := failed(it, "no")
	out.NewRevision = 4
	c.Settle(3*time.Second, it, out)
	check(t, c)
	require.Equal(t, 1, c.Index.figures.States[Retry])
	require.Equal(t, uint64(4), c.Index.LowWatermark(), "the revision after the last observed one")
}

// A change that was observed while an operation ran may be outdated when the operation ends. So the
// object is looked up, even if the operation ends after the next round has begun.
func TestChangeNotedInFlightIsLookedUp(t *testing.T) {
	for name, inRound := range map[string]bool{"between rounds": false, "in a round": true} {
		t.Run(name, func(t *testing.T) {
			c := small(8)
			it := launchRound(t, c, 0, 8, row{key: "a", revision: 1})["a"]
			observe(c, 0, row{key: "a", revision: 2})
			out := done(it)
			out.Lost = true
			if inRound {
				c.Begin(0, 8, false)
				c.Settle(0, it, out)
			} else {
				c.Settle(0, it, out)
				c.Begin(0, 8, false)
			}
			items := c.Plan()
			require.Equal(t, []string{"a"}, planned(items))
			require.True(t, items[0].Turn.Again)
			require.Equal(t, uint64(2), items[0].Revision)
		})
	}
}

// The caller unblocks a key that is forgotten, and looks at the waits for it.
func TestRecallSaysThatARowWithoutAStatusIsForgotten(t *testing.T) {
	for status, forgotten := range map[RowStatus]bool{RowUnset: true, RowDone: false} {
		c := small(8)
		c.Begin(0, 8, true)
		c.see(row{key: "a"}, 1, false, Backlog)
		items := c.Plan()
		c.ObserveSettled(row{key: "a"}, 2, status)
		require.Equal(t, forgotten, c.Recall(0, &items[0]))
		require.Equal(t, !forgotten, c.TracksKeyOf(row{key: "a"}))
	}
}

// The row kind of the last outcome is in the next item of the key, whether that is a retry or a change,
// and whether or not everything observed fits into the round.
func TestRowKindIsReturnedWithTheNextItem(t *testing.T) {
	for name, size := range map[string]int{"fits": 8, "does not fit": 1} {
		t.Run(name, func(t *testing.T) {
			c := small(8)
			begin(c, 0, 1, "a")
			items := c.Plan()
			out := failed(&items[0], "no")
			out.RowKind = 3
			c.Settle(0, &items[0], out)
			c.Begin(time.Second, size, false)
			c.see(row{key: "a"}, 2, false, Backlog)
			c.see(row{key: "b"}, 3, false, Backlog)
			items = c.Plan()
			require.Equal(t, "a", items[0].Obj.key)
			require.Equal(t, uint8(3), items[0].Outcome.RowKind)
		})
	}
}

// A recalled item goes back to where it came from: a change to the front of its lane, a retry to
// its time. It keeps its group.
func TestRecalledItemsGoBackToWhereTheyCameFrom(t *testing.T) {
	c := grouped(8)
	first := launchRound(t, c, 0, 8, row{key: "retry", revision: 1})
	c.Settle(0, first["retry"], failed(first["retry"], "no"))
	c.Begin(100*time.Millisecond, 8, false)
	for i, r := range []row{member("a", 2), member("b", 3), {key: "c", revision: 4}} {
		c.see(r, uint64(i+2), false, Backlog)
	}
	items := c.Plan()
	require.ElementsMatch(t, []string{"retry", "a", "c"}, planned(items))
	for i := len(items) - 1; i >= 0; i-- {
		c.Recall(100*time.Millisecond, &items[i])
	}
	check(t, c)
	require.Equal(t, 100*time.Millisecond, c.keys.entries["retry"].dueAt)
	require.Equal(t, []string{"a", "c"}, keysInLine(&c.queues.lanes[Backlog]))
	require.Equal(t, 1, c.Index.figures.States[Queued], "a still holds its group")
	require.ElementsMatch(t, []string{"retry", "a", "c"}, keysOf(launchRound(t, c, 100*time.Millisecond, 8)))
}

// A change that was observed meanwhile replaces the recalled item, and a recalled probe is no probe
// any more.
func TestChangeReplacesARecalledItem(t *testing.T) {
	cfg := smallConfig(8)
	cfg.Breaker = breakerConfig()
	c := groupedBy(cfg)
	failAll(t, c, 0, 1, "x", "y")
	launched := launchRound(t, c, time.Second, 1, member("a", 3))
	require.Len(t, launched, 1)
	for key, it := range launched {
		observe(c, time.Second, row{key: key, revision: 5})
		c.Recall(time.Second, it)
		check(t, c)
		u, ok := c.UnreconciledOf(it.Obj)
		require.True(t, ok)
		require.Equal(t, uint64(5), u.Since)
	}
	n, _ := c.Breaker.Allowance(time.Second)
	require.Positive(t, n, "the breaker must not wait for the recalled probe")
}

// Callers that wait for a key and lists of deletions need what the row is now, Explain also what runs.
func TestKeyInFlightIsDescribedByItsNewestVersion(t *testing.T) {
	c := twoCursors(4)
	it := handOver(c, 0, 1, version("a", 5, 1))[0]
	idle(t, c, time.Second, row{key: "a", revision: 8, deleted: true})
	u, ok := c.UnreconciledOf(row{key: "a"})
	require.True(t, ok)
	require.True(t, u.Deleted)
	require.Equal(t, uint64(8), u.Revision)
	require.Equal(t, uint64(5), u.Since, "the version that runs is not applied")
	info, _ := c.KeyInfo("a", 0)
	require.True(t, info.Deleted)
	require.False(t, info.Deletes, "an update runs")
	require.Equal(t, time.Second, info.Wanted)

	failedOnce := failed(&it, "no")
	failedOnce.Lost = true
	c.Settle(2*time.Second, &it, failedOnce)
	check(t, c)
	u, _ = c.UnreconciledOf(row{key: "a"})
	require.Equal(t, uint64(8), u.Since)
}
