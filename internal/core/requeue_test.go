// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An object that was reconciled and requeued, and then fails, is unreconciled since its failure,
// not since its old revision. So it comes after everything that fails already. Otherwise, when a
// target breaks down, each of many such objects would have to be sorted in among all the others.
func TestRequeuedKeyIsUnreconciledSinceItsFailure(t *testing.T) {
	c := small(8)
	begin(c, 0, 1, "requeued", "broken", "x", "y")
	items := c.Plan()
	c.Settle(0, &items[0], Outcome[row]{Kind: DoneAgain, Delay: time.Second, Object: items[0].Obj, NewRevision: 1})
	c.Settle(0, &items[1], failed(&items[1], "broken"))
	c.Settle(0, &items[2], done(&items[2]))
	c.Settle(0, &items[3], done(&items[3]))
	check(t, c)
	require.Equal(t, uint64(2), c.Index.LowWatermark(), "the requeued object is reconciled")

	begin(c, time.Second, 5, "fresh")
	items = c.Plan()
	require.ElementsMatch(t, []string{"requeued", "fresh", "broken"}, planned(items))
	for i := range items {
		c.Settle(time.Second, &items[i], failed(&items[i], items[i].Obj.key))
	}
	check(t, c)
	require.Equal(t, []string{"broken", "fresh", "requeued"}, failures(c))
	require.Equal(t, uint64(2), c.Index.LowWatermark())

	// When only the requeued object fails, the watermark shows that everything that was observed
	// before its failure is reconciled.
	begin(c, 2*time.Second, 0)
	items = c.Plan()
	for i := range items {
		if items[i].Obj.key != "requeued" {
			c.Settle(2*time.Second, &items[i], done(&items[i]))
		} else {
			c.Settle(2*time.Second, &items[i], failed(&items[i], "requeued"))
		}
	}
	check(t, c)
	require.Equal(t, uint64(6), c.Index.LowWatermark())
}

// Users write "never" as the longest delay. Added to the time, it must not overflow.
func TestLongestDelayDoesNotOverflow(t *testing.T) {
	const now, never = time.Hour, time.Duration(math.MaxInt64)
	for kind, state := range map[Kind]State{Failed: Retry, DoneAgain: Requeue, BlockedOn: Blocked} {
		c := small(1)
		begin(c, now, 1, "a")
		items := c.Plan()
		out := failed(&items[0], "no")
		out.Kind, out.Delay = kind, never
		c.Settle(now, &items[0], out)
		check(t, c)
		require.Equal(t, 1, c.Index.figures.States[state])
		due, ok := c.NextDue()
		require.True(t, ok)
		require.Equal(t, never, due)
	}

	t.Run("as the backoff", func(t *testing.T) {
		c := New(Config[row]{KeyOf: keyOfRow, Limits: Limits{MinBackoff: never, MaxBackoff: never, RoundSize: 1}})
		begin(c, now, 1, "a")
		items := c.Plan()
		c.Settle(now, &items[0], failed(&items[0], "no"))
		due, _ := c.NextDue()
		require.Equal(t, never, due)
		begin(c, 2*now, 2, "a")
		require.Empty(t, c.Plan(), "its minimum backoff has not passed")
		require.Equal(t, 1, c.Index.figures.States[Held])
	})
}

// A key that is released again, or later than its due time, keeps its due time.
func TestReleaseDoesNotDelayADueKey(t *testing.T) {
	c := small(8)
	begin(c, 0, 1, "a", "b")
	items := c.Plan()
	for i := range items {
		c.Settle(0, &items[i], Outcome[row]{Kind: BlockedOn, Object: items[i].Obj, NewRevision: items[i].Revision})
	}
	require.True(t, c.Release("b", time.Second))
	require.True(t, c.Release("a", 2*time.Second))
	require.True(t, c.Release("b", 3*time.Second))
	due, ok := c.NextDue()
	require.True(t, ok)
	require.Equal(t, time.Second, due)
	c.Begin(3*time.Second, 8, false)
	require.Equal(t, []string{"b", "a"}, planned(c.Plan()))
}
