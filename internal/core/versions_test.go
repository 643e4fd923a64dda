// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// version returns a Pending version of an object with a pendingID.
func version(key string, revision, pendingID uint64) row {
	return row{key: key, revision: revision, pendingID: pendingID, status: statusPending}
}

// twoCursors returns a core of the given round size that compares pending IDs and respects groups.
func twoCursors(size int) *Core[row] {
	cfg := smallConfig(size)
	cfg.SamePending = samePending
	return groupedBy(cfg)
}

// handOver begins a round of at most size items with a catch-up cursor, observes the given rows,
// and returns the items.
func handOver(c *Core[row], now time.Duration, size int, rows ...row) []Operation[row] {
	c.Begin(now, size, true)
	for _, r := range rows {
		c.see(r, r.revision, r.deleted, r.byMain())
	}
	return c.Plan()
}

// idle runs a round with a catch-up cursor and without room for operations.
func idle(t *testing.T, c *Core[row], now time.Duration, rows ...row) {
	t.Helper()
	require.Empty(t, handOver(c, now, 0, rows...))
	check(t, c)
}

// A renewed item is put back into the core, not to its cursor, which has not read that version. If
// the cursor got it back, it would skip everything between.
func TestRenewedItemIsNotPutBackToItsCursor(t *testing.T) {
	c := small(4)
	c.same = samePending
	c.Begin(0, 4, false)
	c.see(version("a", 3, 1), 3, false, Backlog)
	items := c.Plan()
	require.True(t, c.Renew(&items[0], version("a", 20, 1), 20, 20))
	c.Recall(c.round.now, &items[0])
	check(t, c)
	require.Equal(t, uint64(2), c.Index.Attempted(9))
	u, _ := c.UnreconciledOf(row{key: "a"})
	require.Equal(t, uint64(3), u.Since)
	require.Equal(t, uint64(20), u.Revision)
}

// If main reads an older version of a key in flight whose later version is stored already, the
// later change is unreconciled since the older version.
func TestLaterChangeIsUnreconciledSinceAnOlderVersion(t *testing.T) {
	for name, launched := range map[string]func(c *Core[row]) *Operation[row]{
		"reconciled": func(c *Core[row]) *Operation[row] {
			it := &handOver(c, 0, 1, version("a", 1, 1))[0]
			c.Settle(0, it, Outcome[row]{Kind: DoneAgain, Delay: 1, Object: it.Obj, NewRevision: 1})
			return &handOver(c, time.Second, 1)[0]
		},
		"failing": func(c *Core[row]) *Operation[row] {
			it := &handOver(c, 0, 1, version("a", 1, 1))[0]
			c.Settle(0, it, failed(it, "no"))
			return &handOver(c, time.Second, 1)[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := twoCursors(4)
			it := *launched(c)
			idle(t, c, time.Second, version("a", 15, 3))
			require.Equal(t, uint64(12), c.Index.Attempted(12))
			idle(t, c, time.Second, version("a", 12, 2))
			require.Equal(t, uint64(11), c.Index.Attempted(12))
			out := done(&it)
			out.Lost = true
			c.Settle(time.Second, &it, out)
			check(t, c)
			u, _ := c.UnreconciledOf(row{key: "a"})
			require.Equal(t, uint64(12), u.Since)
		})
	}
}

// An operation in flight whose change a caller waits for since an earlier revision counts as not
// attempted since then, even if the core learns that revision only now.
func TestKeyInFlightIsUntriedSinceItsWait(t *testing.T) {
	c := twoCursors(4)
	it := handOver(c, 0, 1, version("a", 4, 1))[0]
	require.True(t, c.Renew(&it, version("a", 7, 2), 7, 7))
	c.Begin(0, 1, true)
	c.Observe(Change[row]{version("a", 8, 2), 8, 6, false, Backlog, false})
	c.Plan()
	check(t, c)
	require.Equal(t, uint64(5), c.Index.Attempted(8))
	require.Equal(t, uint64(6), c.Index.LowWatermark())
}

// A version older than the attempted one does not change since when the stored later change counts
// as not attempted.
func TestOlderVersionDoesNotMoveALaterChange(t *testing.T) {
	c := twoCursors(4)
	it := &handOver(c, 0, 1, version("a", 10, 1))[0]
	c.Settle(0, it, failed(it, "no"))
	require.Len(t, handOver(c, time.Second, 1), 1)
	idle(t, c, time.Second, version("a", 15, 2))
	idle(t, c, time.Second, version("a", 8, 0))
	require.Equal(t, uint64(14), c.Index.Attempted(20))
	require.Equal(t, uint64(8), c.Index.LowWatermark())
}

// A stored change that asks for the same as a recalled item is the same change.
func TestRecalledItemIsUnreconciledSinceItsFirstVersion(t *testing.T) {
	c := twoCursors(4)
	it := handOver(c, 0, 1, version("a", 3, 1))[0]
	idle(t, c, 0, version("b", 4, 2), version("a", 8, 1))
	c.Recall(0, &it)
	check(t, c)
	require.Equal(t, uint64(2), c.Index.Attempted(9))
	items := handOver(c, 0, 4)
	require.Equal(t, []string{"a", "b"}, planned(items))
	require.Equal(t, uint64(8), items[0].Revision)
}

// A sweep may add an object before main reads its deletion. That deletion is not attempted before
// the operation of the sweep has ended, whatever is observed meanwhile.
func TestDeletionIsUntriedUntilTheSweepOfItsObjectEnds(t *testing.T) {
	c := twoCursors(4)
	first := &handOver(c, 0, 1, version("b", 11, 1))[0]
	c.Settle(0, first, done(first))
	require.True(t, c.AddOrphan(row{key: "a", deleted: true}, 15))
	it := handOver(c, 0, 1)[0]
	idle(t, c, 0, version("a", 20, 1))
	idle(t, c, 0, row{key: "a", revision: 12, deleted: true})
	require.Equal(t, uint64(11), c.Index.Attempted(14))
	c.Settle(0, &it, done(&it))
	check(t, c)
	require.Equal(t, uint64(19), c.Index.Attempted(30))
}

// A ready key may hold its group. A change to another group keeps the key's place in its lane, but
// the key has to wait for the other group.
func TestReadyKeyWaitsForItsNewGroup(t *testing.T) {
	for name, pendingID := range map[string]uint64{"another pending ID": 2, "the same pending ID": 1} {
		t.Run(name, func(t *testing.T) {
			c := twoCursors(4)
			of := func(r row, group string) row { r.group = group; return r }
			items := handOver(c, 0, 4, of(version("busy", 1, 1), "h"), of(version("a", 2, 1), "g"))
			require.Len(t, items, 2)
			c.Recall(c.round.now, &items[1])
			require.Empty(t, handOver(c, 0, 4, of(version("a", 3, pendingID), "h")))
			check(t, c)
			require.Equal(t, 1, c.Index.figures.States[Queued])
		})
	}
}

// A held or paused change counts as attempted, even after another writer has written the row: a
// watermark never goes back.
func TestHeldAndPausedKeysKeepCountingAsAttempted(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		c := twoCursors(4)
		it := &handOver(c, 0, 1, version("a", 1, 1))[0]
		c.Settle(0, it, failed(it, "no"))
		idle(t, c, 0, version("a", 2, 2))
		idle(t, c, time.Second, version("a", 3, 2))
		require.Equal(t, 1, c.Index.figures.States[Held])
		require.Equal(t, uint64(3), c.Index.Attempted(3))
	})
	t.Run("held, then queued", func(t *testing.T) {
		c := twoCursors(4)
		of := func(r row) row { r.group = "g"; return r }
		it := &handOver(c, 0, 1, of(version("a", 1, 1)))[0]
		c.Settle(0, it, failed(it, "no"))
		idle(t, c, 0, of(version("a", 2, 2)))
		items := handOver(c, 0, 4, of(version("b", 3, 1)))
		c.Settle(0, &items[0], Outcome[row]{Kind: DoneAgain, Delay: time.Millisecond, Object: items[0].Obj, NewRevision: 3})
		require.Len(t, handOver(c, 50*time.Millisecond, 4), 1)
		require.Empty(t, handOver(c, time.Second, 4))
		idle(t, c, time.Second, of(version("a", 4, 2)))
		require.Equal(t, 1, c.Index.figures.States[Queued])
		require.Equal(t, uint64(4), c.Index.Attempted(4))
	})
	t.Run("paused", func(t *testing.T) {
		c := twoCursors(4)
		c.SetPaused(0, func(r row) bool { return r.key == "a" })
		require.Empty(t, handOver(c, 0, 4, version("a", 2, 1)))
		idle(t, c, 0, version("b", 3, 1), version("a", 4, 1))
		require.Equal(t, 1, c.Index.figures.States[Paused])
		require.Equal(t, uint64(2), c.Index.Attempted(4))
	})
}

// A failing key whose object is gone stays unreconciled until its deletion is observed, even if a
// change was observed in between.
func TestSupersededKeyIsUnreconciled(t *testing.T) {
	c := small(4)
	begin(c, 0, 1, "a")
	items := c.Plan()
	c.Settle(0, &items[0], failed(&items[0], "no"))
	begin(c, time.Second, 5, "a")
	items = c.Plan()
	c.Settle(time.Second, &items[0], Outcome[row]{Kind: Superseded})
	check(t, c)
	require.Equal(t, 1, c.Index.figures.States[Unseen])
	require.Equal(t, uint64(5), c.Index.LowWatermark())
}

// A probe that is renewed to a later version and recalled is no probe any more: it waits in its lane, and other keys
// may probe.
func TestChangedProbeThatIsRecalledIsNoProbe(t *testing.T) {
	c := withBreaker(8, breakerConfig())
	failAll(t, c, 0, 1, "a", "b")
	c.Begin(time.Second, 1, false)
	items := c.Plan()
	require.Len(t, items, 1)
	require.True(t, c.Renew(&items[0], row{key: items[0].Obj.key}, 9, 9))
	c.Recall(c.round.now, &items[0])
	check(t, c)
	n, _ := c.Breaker.Allowance(time.Second)
	require.Positive(t, n)
}

// A key whose row asks for nothing is forgotten wherever it waits, and so is a deletion whose row
// is back. Older rows change nothing.
func TestRowThatAsksForNothingEndsAWait(t *testing.T) {
	for name, outcome := range map[string]func(it *Operation[row]) Outcome[row]{
		"retry":    func(it *Operation[row]) Outcome[row] { return failed(it, "no") },
		"terminal": func(it *Operation[row]) Outcome[row] { o := failed(it, "no"); o.Kind = FailedForGood; return o },
		"blocked": func(it *Operation[row]) Outcome[row] {
			return Outcome[row]{Kind: BlockedOn, Object: it.Obj, NewRevision: it.Revision}
		},
		"unseen": func(it *Operation[row]) Outcome[row] { o := failed(it, "no"); o.Lost = true; return o },
	} {
		for _, deleted := range []bool{false, true} {
			c := twoCursors(4)
			it := &handOver(c, 0, 1, row{key: "a", revision: 5, deleted: deleted})[0]
			c.Settle(0, it, outcome(it))
			says := RowFailed
			switch {
			case !deleted && name == "terminal":
				require.False(t, c.ObserveSettled(row{key: "a"}, 5, RowFailed))
				says = RowDone
			case !deleted:
				says = RowUnset
			}
			require.False(t, c.ObserveSettled(row{key: "a"}, 5, says), "the row is not newer")
			require.True(t, c.ObserveSettled(row{key: "a"}, 6, says), name)
			check(t, c)
			require.False(t, tracks(c))
			require.Zero(t, c.Index.figures.Failing)
		}
	}
}

// The same holds if such a row is observed while the key's operation runs.
func TestKeyWithAnUnsetRowIsForgottenWhenItFinishes(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			c := twoCursors(4)
			it := handOver(c, 0, 1, row{key: "a", revision: 5, deleted: deleted})[0]
			says := RowUnset
			if deleted {
				says = RowDone
			}
			require.False(t, c.ObserveSettled(row{key: "a"}, 6, says))
			out := failed(&it, "no")
			out.Lost = lost
			c.Settle(0, &it, out)
			check(t, c)
			require.False(t, tracks(c))
		}
	}
}

// A key that waits, and whose row is written without asking for an operation, does not have that version: its
// operation says so, until an outcome brings the version up to date.
func TestOperationSaysThatItsVersionIsOutdated(t *testing.T) {
	failed := func(op *Operation[row], at uint64) Outcome[row] {
		text := "no"
		return Outcome[row]{Kind: Failed, Text: &text, Object: op.Obj, NewRevision: at}
	}
	turn := func(c *Core[row], now time.Duration) *Operation[row] {
		c.Begin(now, 1, false)
		items := c.planFrom(&listed[row]{})
		require.Len(t, items, 1)
		return &items[0]
	}
	c := small(1)
	c.Begin(0, 1, false)
	c.Observe(Change[row]{row{key: "a"}, 1, 1, false, Backlog, false})
	op := turn(c, 0)
	require.False(t, op.Turn.Outdated)
	c.Settle(0, op, failed(op, 2))

	c.ObserveSettled(row{key: "a"}, 2, RowFailed)
	op = turn(c, time.Hour)
	require.False(t, op.Turn.Outdated, "the row is what the outcome has written")
	c.Settle(time.Hour, op, failed(op, 2))

	c.ObserveSettled(row{key: "a"}, 3, RowFailed)
	op = turn(c, 2*time.Hour)
	require.True(t, op.Turn.Outdated, "the row was written since")
	c.Recall(2*time.Hour, op)
	op = turn(c, 2*time.Hour)
	require.True(t, op.Turn.Outdated, "the operation was not run")
	c.Settle(2*time.Hour, op, failed(op, 3))

	op = turn(c, 3*time.Hour)
	require.False(t, op.Turn.Outdated, "the operation ran the latest version")
	c.ObserveSettled(row{key: "a"}, 4, RowFailed)
	c.Settle(3*time.Hour, op, failed(op, 3))
	require.True(t, turn(c, 4*time.Hour).Turn.Outdated, "the row was written while the operation ran")
}

// A change that was not attempted, because its row was gone, is looked up when its row is back and asks for nothing.
func TestChangeThatWasNotAttemptedIsOutdatedWhenItsRowIsBack(t *testing.T) {
	c := small(1)
	c.Begin(0, 1, true)
	c.Observe(Change[row]{row{key: "a"}, 1, 1, false, Backlog, false})
	items := c.planFrom(&listed[row]{})
	c.Settle(0, &items[0], Outcome[row]{Kind: Superseded})
	c.ObserveSettled(row{key: "a"}, 3, RowDone)
	c.Begin(time.Hour, 1, true)
	items = c.planFrom(&listed[row]{})
	require.Len(t, items, 1)
	require.True(t, items[0].Turn.Outdated)
}
