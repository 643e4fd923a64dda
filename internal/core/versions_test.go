// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// version returns a version of an object that asks for a wish.
func version(key string, revision, wish uint64) row {
	return row{key: key, revision: revision, pendingID: wish, status: statusPending}
}

// twoCursors returns a core of the given round size that tells a version from a wish.
func twoCursors(size int) *Core[row] {
	cfg := smallConfig(size)
	cfg.SamePending = samePending
	return groupedBy(cfg)
}

// handOver runs a round beside a catch-up cursor, of at most so many items, in which the given rows are
// observed, and returns the items.
func handOver(c *Core[row], now time.Duration, size int, rows ...row) []Item[row] {
	c.Begin(now, size, c.roundSize)
	for _, r := range rows {
		c.see(r, r.revision, r.deleted, r.byMain())
	}
	return c.Plan()
}

// idle runs a round beside a catch-up cursor in which there is room for no operation.
func idle(t *testing.T, c *Core[row], now time.Duration, rows ...row) {
	t.Helper()
	require.Empty(t, handOver(c, now, 0, rows...))
	c.End(0)
	check(t, c)
}

// A version that was looked up is none that the cursor has come to. Were the cursor to have it
// back, it would leave out all that is between.
func TestCursorIsNotGivenALaterVersionBack(t *testing.T) {
	c := small(4)
	c.samePending = samePending
	c.Begin(0, 4, 0)
	c.see(version("a", 3, 1), 3, false, Backlog)
	items := c.Plan()
	require.True(t, c.Renew(&items[0], version("a", 20, 1), 20, 20))
	require.True(t, c.PutBack(&items[0]))
	c.End(0)
	check(t, c)
	require.Equal(t, uint64(2), c.Attempted(9))
	u, _ := c.UnreconciledOf(row{key: "a"})
	require.Equal(t, uint64(3), u.Since)
	require.Equal(t, uint64(20), u.Revision)
}

// What main comes to while a later version is noted of a key in flight was there before it.
func TestLaterChangeIsUnreconciledSinceAnOlderVersion(t *testing.T) {
	for name, launched := range map[string]func(c *Core[row]) *Item[row]{
		"reconciled": func(c *Core[row]) *Item[row] {
			it := &handOver(c, 0, 1, version("a", 1, 1))[0]
			c.Settle(0, it, Outcome[row]{Kind: DoneAgain, Delay: 1, Obj: it.Obj, Revision: 1})
			c.End(1)
			return &handOver(c, time.Second, 1)[0]
		},
		"failing": func(c *Core[row]) *Item[row] {
			it := &handOver(c, 0, 1, version("a", 1, 1))[0]
			c.Settle(0, it, failed(it, "no"))
			c.End(1)
			return &handOver(c, time.Second, 1)[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := twoCursors(4)
			it := *launched(c)
			c.Launch(&it)
			c.End(1)
			idle(t, c, time.Second, version("a", 15, 3))
			require.Equal(t, uint64(12), c.Attempted(12))
			idle(t, c, time.Second, version("a", 12, 2))
			require.Equal(t, uint64(11), c.Attempted(12))
			out := done(&it)
			out.Lost = true
			c.Settle(time.Second, &it, out)
			check(t, c)
			u, _ := c.UnreconciledOf(row{key: "a"})
			require.Equal(t, uint64(12), u.Since)
		})
	}
}

// What somebody waits for since before it was launched is not attempted before it has landed,
// though the core learns only now since when it is waited for.
func TestKeyInFlightIsUnreconciledSinceItsWait(t *testing.T) {
	c := twoCursors(4)
	it := handOver(c, 0, 1, version("a", 4, 1))[0]
	require.True(t, c.Renew(&it, version("a", 7, 2), 7, 7))
	c.Launch(&it)
	c.End(1)
	c.Begin(0, 1, 4)
	c.Observe(version("a", 8, 2), 8, 6, false, Backlog)
	c.Plan()
	c.End(0)
	check(t, c)
	require.Equal(t, uint64(5), c.Attempted(8))
	require.Equal(t, uint64(6), c.LowWatermark())
}

// An older version than what was tried says nothing of the change that is noted.
func TestVersionBeforeTheTriedOneDoesNotMoveANote(t *testing.T) {
	c := twoCursors(4)
	it := &handOver(c, 0, 1, version("a", 10, 1))[0]
	c.Settle(0, it, failed(it, "no"))
	c.End(1)
	it = &handOver(c, time.Second, 1)[0]
	c.Launch(it)
	c.End(1)
	idle(t, c, time.Second, version("a", 15, 2))
	idle(t, c, time.Second, version("a", 8, 0))
	require.Equal(t, uint64(14), c.Attempted(20))
	require.Equal(t, uint64(8), c.LowWatermark())
}

// A change that has been noted and asks for what was launched is that, if it has not begun.
func TestRecalledItemIsUnreconciledSinceItsFirstVersion(t *testing.T) {
	c := twoCursors(4)
	it := handOver(c, 0, 1, version("a", 3, 1))[0]
	c.Launch(&it)
	c.End(1)
	idle(t, c, 0, version("b", 4, 2), version("a", 8, 1))
	c.Recall(0, &it)
	check(t, c)
	require.Equal(t, uint64(2), c.Attempted(9))
	items := handOver(c, 0, 4)
	require.Equal(t, []string{"a", "b"}, planned(items))
	require.Equal(t, uint64(8), items[0].Revision)
}

// A sweep may find an object before main comes to its deletion, which is not attempted before
// what the sweep began has ended, whatever came meanwhile.
func TestDeletionOfWhatIsSweptIsNotAttemptedBeforeThatHasEnded(t *testing.T) {
	c := twoCursors(4)
	first := &handOver(c, 0, 1, version("b", 11, 1))[0]
	c.Settle(0, first, done(first))
	c.End(1)
	require.True(t, c.AddOrphan(row{key: "a", deleted: true}, 15))
	it := handOver(c, 0, 1)[0]
	c.Launch(&it)
	c.End(1)
	idle(t, c, 0, version("a", 20, 1))
	idle(t, c, 0, row{key: "a", revision: 12, deleted: true})
	require.Equal(t, uint64(11), c.Attempted(14))
	c.Settle(0, &it, done(&it))
	check(t, c)
	require.Equal(t, uint64(19), c.Attempted(30))
}

// A ready key may have its group already. A change of it that is of another group keeps its
// place, but has to wait for that group as any other.
func TestReadyKeyThatChangesItsGroupWaitsForIt(t *testing.T) {
	for name, wish := range map[string]uint64{"another wish": 2, "the same": 1} {
		t.Run(name, func(t *testing.T) {
			c := twoCursors(4)
			of := func(r row, group string) row { r.group = group; return r }
			items := handOver(c, 0, 4, of(version("busy", 1, 1), "h"), of(version("a", 2, 1), "g"))
			require.Len(t, items, 2)
			c.Launch(&items[0])
			require.True(t, c.PutBack(&items[1]))
			c.End(1)
			require.Empty(t, handOver(c, 0, 4, of(version("a", 3, wish), "h")))
			c.End(0)
			check(t, c)
			require.Equal(t, 1, c.Count(Queued))
		})
	}
}

// What is held or paused counts as attempted, and goes on doing so when somebody else writes
// the row: a watermark does not go back.
func TestHeldAndPausedKeysStayWhereTheyAre(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		c := twoCursors(4)
		it := &handOver(c, 0, 1, version("a", 1, 1))[0]
		c.Settle(0, it, failed(it, "no"))
		c.End(1)
		idle(t, c, 0, version("a", 2, 2))
		idle(t, c, time.Second, version("a", 3, 2))
		require.Equal(t, 1, c.Count(Held))
		require.Equal(t, uint64(3), c.Attempted(3))
	})
	t.Run("held, and queued since", func(t *testing.T) {
		c := twoCursors(4)
		of := func(r row) row { r.group = "g"; return r }
		it := &handOver(c, 0, 1, of(version("a", 1, 1)))[0]
		c.Settle(0, it, failed(it, "no"))
		c.End(1)
		idle(t, c, 0, of(version("a", 2, 2)))
		items := handOver(c, 0, 4, of(version("b", 3, 1)))
		c.Settle(0, &items[0], Outcome[row]{Kind: DoneAgain, Delay: time.Millisecond, Obj: items[0].Obj, Revision: 3})
		c.End(1)
		items = handOver(c, 50*time.Millisecond, 4)
		c.Launch(&items[0])
		c.End(1)
		require.Empty(t, handOver(c, time.Second, 4))
		c.End(0)
		idle(t, c, time.Second, of(version("a", 4, 2)))
		require.Equal(t, 1, c.Count(Queued))
		require.Equal(t, uint64(4), c.Attempted(4))
	})
	t.Run("paused", func(t *testing.T) {
		c := twoCursors(4)
		c.SetPaused(0, func(r row) bool { return r.key == "a" })
		require.Empty(t, handOver(c, 0, 4, version("a", 2, 1)))
		c.End(0)
		idle(t, c, 0, version("b", 3, 1), version("a", 4, 1))
		require.Equal(t, 1, c.Count(Paused))
		require.Equal(t, uint64(2), c.Attempted(4))
	})
}

// A key that fails is unreconciled until its deletion is observed, also if it was changed before that.
func TestSupersededKeyIsUnreconciled(t *testing.T) {
	c := small(4)
	begin(c, 0, 1, "a")
	items := c.Plan()
	c.Settle(0, &items[0], failed(&items[0], "no"))
	c.End(1)
	begin(c, time.Second, 5, "a")
	items = c.Plan()
	c.Settle(time.Second, &items[0], Outcome[row]{Kind: Superseded})
	c.End(0)
	check(t, c)
	require.Equal(t, 1, c.Count(Unseen))
	require.Equal(t, uint64(5), c.LowWatermark())
}

// A probe that turns out to be of a later version and is put back is none: it has to wait for
// its turn among the changes, and others may probe meanwhile.
func TestProbeThatChangedAndIsPutBackIsNone(t *testing.T) {
	c := withBreaker(8, breakerConfig(true))
	failAll(t, c, 0, 1, "x", "a", "b")
	require.Empty(t, settleAll(t, c, 500*time.Millisecond, nil))
	c.Begin(time.Second, 8, 0)
	items := c.Plan()
	require.Len(t, items, 1)
	require.True(t, c.Renew(&items[0], row{key: items[0].Obj.key}, 9, 9))
	require.True(t, c.PutBack(&items[0]))
	c.End(0)
	check(t, c)
	due, _ := c.probesDue()
	require.Equal(t, time.Second, due)
}

// A row that asks for nothing is forgotten wherever its key waits, and so is a deletion
// whose row is back; older rows say nothing.
func TestRowThatAsksForNothingEndsWhatWaits(t *testing.T) {
	for name, outcome := range map[string]func(it *Item[row]) Outcome[row]{
		"retry":    func(it *Item[row]) Outcome[row] { return failed(it, "no") },
		"terminal": func(it *Item[row]) Outcome[row] { o := failed(it, "no"); o.Kind = FailedForGood; return o },
		"blocked": func(it *Item[row]) Outcome[row] {
			return Outcome[row]{Kind: BlockedOn, Obj: it.Obj, Revision: it.Revision}
		},
		"unseen": func(it *Item[row]) Outcome[row] { o := failed(it, "no"); o.Lost = true; return o },
	} {
		for _, deleted := range []bool{false, true} {
			c := twoCursors(4)
			it := &handOver(c, 0, 1, row{key: "a", revision: 5, deleted: deleted})[0]
			c.Settle(0, it, outcome(it))
			c.End(1)
			says := RowFailed
			switch {
			case !deleted && name == "terminal":
				require.False(t, c.ObserveSettled(row{key: "a"}, 5, RowFailed))
				says = RowDone
			case !deleted:
				says = RowUnset
			}
			require.True(t, c.NeedsSettled() || !deleted && name != "unseen" && name != "terminal")
			require.False(t, c.ObserveSettled(row{key: "a"}, 5, says), "it is as old")
			require.True(t, c.ObserveSettled(row{key: "a"}, 6, says), name)
			check(t, c)
			require.False(t, c.Tracks())
			require.Zero(t, c.NumFailing())
		}
	}
}

// The same holds when its operation finishes.
func TestKeyWithAnUnsetRowIsForgottenWhenItFinishes(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			c := twoCursors(4)
			it := handOver(c, 0, 1, row{key: "a", revision: 5, deleted: deleted})[0]
			c.Launch(&it)
			c.End(1)
			says := RowUnset
			if deleted {
				says = RowDone
			}
			require.False(t, c.ObserveSettled(row{key: "a"}, 6, says))
			out := failed(&it, "no")
			out.Lost = lost
			c.Settle(0, &it, out)
			check(t, c)
			require.False(t, c.Tracks())
		}
	}
}

// The main cursor passes a deletion that the catch-up cursor has seen: nothing comes of it but for a key
// that is known.
func TestDeletionThatTheTipHasSeenIsPassed(t *testing.T) {
	c := twoCursors(4)
	c.Begin(0, 4, 4)
	c.ObserveSeenDeletion(row{key: "a"}, 7)
	require.Empty(t, c.Plan())
	c.End(0)
	require.False(t, c.Tracks())
	idle(t, c, 0, version("a", 5, 1))
	c.Begin(0, 4, 4)
	c.ObserveSeenDeletion(row{key: "a"}, 7)
	items := c.Plan()
	require.Len(t, items, 1)
	require.True(t, items[0].Deleted)
}
