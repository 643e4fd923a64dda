// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grouped returns a core of the given round size that respects the groups of rows.
func grouped(size int) *Core[row] { return groupedBy(smallConfig(size)) }

func groupedBy(cfg Config[row]) *Core[row] {
	cfg.GroupOf = func(r row) string { return r.group }
	c := New(cfg)
	c.SetGrouping(true)
	return c
}

// launchRound runs a round of the given size: it observes the given rows, launches everything that
// is planned, and returns the items by key.
func launchRound(t *testing.T, c *Core[row], now time.Duration, size int, rows ...row) map[string]*Operation[row] {
	t.Helper()
	c.Begin(now, size, false)
	for _, r := range rows {
		c.see(r, r.revision, r.deleted, r.byMain())
	}
	launched := map[string]*Operation[row]{}
	items := c.Plan()
	for i := range items {
		it := items[i]
		launched[it.Obj.key] = &it
	}
	check(t, c)
	return launched
}

func keysOf(launched map[string]*Operation[row]) (keys []string) {
	for key := range launched {
		keys = append(keys, key)
	}
	return keys
}

// member returns a row of the group "g".
func member(key string, revision uint64) row { return row{key: key, revision: revision, group: "g"} }

// A key that became the holder of its group changes before it is run, and so does another key of
// the group. The group must stay busy.
func TestAtMostOneKeyOfAGroupIsInFlight(t *testing.T) {
	c := grouped(8)
	// b and c wait for a; b waits as a retry.
	first := launchRound(t, c, 0, 8, row{key: "b", revision: 1, group: "g"})
	c.Settle(0, first["b"], failed(first["b"], "no"))
	first = launchRound(t, c, 50*time.Millisecond, 8, member("a", 2))
	require.Equal(t, []string{"a"}, keysOf(first))
	require.Empty(t, launchRound(t, c, time.Second, 8, member("c", 3)))
	require.Equal(t, 2, c.Index.figures.States[Queued])
	c.Settle(time.Second, first["a"], done(first["a"]))
	check(t, c)

	inFlight := 0
	launch := func(size int, rows ...row) {
		t.Helper()
		inFlight += len(launchRound(t, c, time.Second, size, rows...))
		require.LessOrEqual(t, inFlight, 1, "in flight of the group")
	}
	launch(1, member("c", 4))
	launch(1, member("b", 5))
	launch(1)
	require.Equal(t, 1, inFlight)
}

// A key that waits for its group gets its turn, whatever its lane, however many keys of the group
// come after it.
func TestLaterKeysOfAGroupDoNotOvertake(t *testing.T) {
	for _, lane := range []Lane{Deletion, Backlog, Refresh, Resumption} {
		t.Run(lane.String(), func(t *testing.T) {
			c := grouped(8)
			revision := uint64(0)
			fresh := func() row {
				revision++
				return member(fmt.Sprintf("fresh%d", revision), revision)
			}
			running := launchRound(t, c, 0, 1, fresh())
			patient := member("patient", 1000)
			patient.lane = lane
			require.Empty(t, launchRound(t, c, 0, 8, patient))
			c.round.turn = 1
			others := make([]row, len(places)-1)
			for range 20 {
				for key, it := range running {
					if key == "patient" {
						return
					}
					c.Settle(0, it, done(it))
				}
				// Another key of the group comes whenever the group is free, and gets the same
				// place, which belongs to its lane.
				running = launchRound(t, c, 0, 1, fresh())
				for i := range others {
					revision++
					others[i] = row{key: fmt.Sprintf("other%d", revision), revision: revision}
				}
				for _, it := range launchRound(t, c, 0, len(others), others...) {
					c.Settle(0, it, done(it))
				}
			}
			require.Fail(t, "the key never gets its turn")
		})
	}
}

// A key that is put back keeps its group: the keys queued behind it do not overtake it.
func TestKeyPutBackKeepsItsTurnInTheGroup(t *testing.T) {
	c := grouped(8)
	c.Begin(0, 8, false)
	for i, key := range []string{"a", "b", "c"} {
		c.see(member(key, uint64(i+1)), uint64(i+1), false, Backlog)
	}
	items := c.Plan()
	require.Equal(t, []string{"a"}, planned(items))
	c.Recall(c.round.now, &items[0])
	check(t, c)
	require.Equal(t, []string{"a"}, keysOf(launchRound(t, c, 0, 8)))
}

// A change that is held for its minimum backoff counts as attempted. It still does when it is due
// and its group is busy: a watermark never goes back.
func TestHeldChangeThatWaitsForItsGroupCountsAsAttempted(t *testing.T) {
	c := grouped(8)
	first := launchRound(t, c, 0, 8, member("a", 1))
	c.Settle(0, first["a"], failed(first["a"], "no"))
	first = launchRound(t, c, 0, 8, member("b", 2))
	observe(c, 0, member("a", 3))
	require.Equal(t, 1, c.Index.figures.States[Held])
	c.Settle(0, first["b"], done(first["b"]))
	launchRound(t, c, 0, 8, member("c", 4))
	attempted := c.Index.Attempted(4)
	launchRound(t, c, time.Second, 8)
	require.Equal(t, 1, c.Index.figures.States[Queued])
	require.Equal(t, attempted, c.Index.Attempted(4))
}

// A pause that begins makes a change count as attempted that is ready, queued, or waits for the operation
// on its own key. Its end makes it count as not attempted.
func TestChangeCountsAsAttemptedFromTheBeginOfItsPause(t *testing.T) {
	c := grouped(8)
	first := launchRound(t, c, 0, 8, member("a", 1))
	c.Settle(0, first["a"], Outcome[row]{Kind: DoneAgain, Delay: time.Second, Object: member("a", 1), NewRevision: 1})
	launchRound(t, c, time.Second, 8)
	require.Empty(t, launchRound(t, c, time.Second, 8, member("b", 2), member("a", 3)))
	require.Equal(t, 1, c.Index.figures.States[Queued])
	require.Equal(t, 1, c.Index.figures.States[InFlight])
	require.Equal(t, uint64(1), c.Index.Attempted(3))
	c.SetPaused(time.Second, func(r row) bool { return r.key == "b" })
	check(t, c)
	require.Equal(t, 1, c.Index.figures.States[Paused])
	require.Equal(t, uint64(2), c.Index.Attempted(3))
	c.SetPaused(time.Second, func(row) bool { return true })
	check(t, c)
	require.Equal(t, uint64(3), c.Index.Attempted(3))
	require.Equal(t, uint64(2), c.Index.LowWatermark())
	c.SetPaused(time.Second, nil)
	check(t, c)
	require.Equal(t, uint64(1), c.Index.Attempted(3))
}

// A stack that is too deep ends the program.
func TestPauseOfALongGroupNeedsNoDeepStack(t *testing.T) {
	const keys = 100_000
	defer debug.SetMaxStack(debug.SetMaxStack(8 << 20))
	c := grouped(keys)
	c.Begin(0, keys, false)
	for i := range keys {
		r := member(fmt.Sprint(i), uint64(i+1))
		c.see(r, r.revision, false, Backlog)
	}
	items := c.Plan()
	require.Len(t, items, 1)
	it := items[0]
	c.Recall(0, &it)
	c.SetPaused(0, func(row) bool { return true })
	require.Equal(t, keys, c.Index.figures.States[Paused])
	require.Empty(t, c.queues.groups.byName)
	c.SetPaused(0, nil)
	require.Equal(t, keys, c.Index.figures.States[Ready])
}
