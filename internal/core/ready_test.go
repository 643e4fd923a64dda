// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The round after a flood is shared with retries, so not all changes that were put back fit into
// it. A change that is put back a second time is older than those that stayed in the lane, and goes
// before them. Until it has been run it counts as not attempted.
func TestChangesPutBackTwiceKeepTheirPlace(t *testing.T) {
	c := small(8)
	begin(c, 0, 1, "r1", "r2")
	items := c.Plan()
	for i := range items {
		c.Settle(time.Duration(i), &items[i], failed(&items[i], "no"))
	}

	// The target is slow: a round runs one item, and puts back the others.
	beside(c, 0, 3, "a", "b", "c", "d", "e", "f", "g", "h")
	runFirst(t, c, 0, "a", "b", "c", "d", "e", "f", "g", "h")
	require.Equal(t, uint64(3), c.Index.Attempted(10))

	c.Begin(time.Second, 8, true)
	runFirst(t, c, time.Second, "b", "r1", "c", "d", "e", "r2", "f", "g")
	check(t, c)
	require.Equal(t, uint64(4), c.Index.Attempted(10), "c, at revision 5, has not been attempted")

	c.Begin(time.Second, 8, true)
	require.Equal(t, []string{"r1", "c", "d", "e", "r2", "f", "g", "h"}, planned(c.Plan()))
}

// beside begins a round with a catch-up cursor, and observes changes of the given keys in the lane
// Backlog. Their revisions rise from the given one.
func beside(c *Core[row], now time.Duration, from uint64, keys ...string) {
	c.Begin(now, c.roundSize, true)
	for i, key := range keys {
		c.see(row{key: key}, from+uint64(i), false, Backlog)
	}
}

// A change without an entry that was put back gets one, and comes before those that were read later.
func TestChangeThatWasPutBackKeepsItsPlace(t *testing.T) {
	c := small(4)
	begin(c, 0, 1, "a", "b", "c")
	items := c.Plan()
	c.Settle(0, &items[0], done(&items[0]))
	c.Recall(c.round.now, &items[2])
	c.Recall(c.round.now, &items[1])
	check(t, c)
	require.Equal(t, uint64(1), c.Index.Attempted(3))
	begin(c, 0, 4, "d")
	items = c.Plan()
	require.Equal(t, []string{"b", "c", "d"}, planned(items))
}

// A change replaces the key that was put back.
func TestChangeReplacesAKeyThatWasPutBack(t *testing.T) {
	c := small(4)
	beside(c, 0, 1, "a", "b")
	items := c.Plan()
	c.Settle(0, &items[0], failed(&items[0], "no"))
	c.Recall(c.round.now, &items[1])

	begin(c, time.Second, 3, "b")
	items = c.Plan()
	require.Equal(t, []string{"b", "a"}, planned(items))
	require.False(t, items[0].Turn.Again, "the change is run")
	for i := range items {
		c.Settle(time.Second, &items[i], done(&items[i]))
	}
	check(t, c)
	_, due := c.NextDue()
	require.False(t, due, "nothing is left")
}

// A key that waited for its retry, its requeue or its minimum backoff, and is put back, waits there
// again. Many such keys must not pile up among the fresh changes.
func TestKeyThatIsPutBackWaitsAsBefore(t *testing.T) {
	c := small(4)
	begin(c, 0, 1, "retry", "held", "requeue")
	items := c.Plan()
	c.Settle(0, &items[0], failed(&items[0], "no"))
	c.Settle(0, &items[1], failed(&items[1], "no"))
	c.Settle(0, &items[2], Outcome[row]{Kind: DoneAgain, Delay: time.Second, Object: items[2].Obj, NewRevision: 3})
	begin(c, 50*time.Millisecond, 4, "held")
	require.Empty(t, c.Plan())
	require.Equal(t, 1, c.Index.figures.States[Held])

	begin(c, time.Second, 0)
	items = c.Plan()
	require.Len(t, items, 3)
	for i := range items {
		c.Recall(c.round.now, &items[i])
	}
	check(t, c)
	for _, s := range []State{Retry, Held, Requeue} {
		require.Equal(t, 1, c.Index.figures.States[s], "keys in state %s", s)
	}
	due, _ := c.NextDue()
	require.Equal(t, 100*time.Millisecond, due)
}
