// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recording returns a core whose records are taken.
func recording() *Core[row] {
	cfg := smallConfig(4)
	cfg.Records = true
	return New(cfg)
}

// take returns the records that have changed, by key. Every change may hold the mark.
func take(c *Core[row]) map[string]Recorded { return takeUntil(c, -1) }

// takeUntil is take; the changes that were observed by the given time do not hold the mark any more.
func takeUntil(c *Core[row], until time.Duration) map[string]Recorded {
	records := map[string]Recorded{}
	c.Index.TakeRecords(until, func(r Record[row]) { records[r.Key] = r.Kind })
	return records
}

// runRound runs a round of due keys, and settles each item.
func runRound(c *Core[row], now time.Duration, settle func(*Operation[row]) Outcome[row]) (keys []string) {
	c.Begin(now, 4, false)
	items := c.Plan()
	for i := range items {
		c.Settle(now, &items[i], settle(&items[i]))
	}
	keys = planned(items)
	return keys
}

func TestAgainLeavesAReconciledKeyReconciled(t *testing.T) {
	c := recording()
	require.False(t, c.Again(0, row{key: "a"}, 7, false))
	require.False(t, c.Again(0, row{key: "a"}, 7, false), "it is ready already")
	require.Equal(t, 1, c.Index.figures.Refreshing)
	require.Zero(t, c.Index.LowWatermark())
	require.Equal(t, uint64(9), c.Index.Attempted(9))
	_, _, holds := c.Index.HoldsSince()
	require.False(t, holds)

	c.Begin(0, 4, false)
	items := c.Plan()
	require.Equal(t, []string{"a"}, planned(items))
	require.True(t, items[0].Turn.Again, "the row may have changed")
	require.Equal(t, CauseRefresh, items[0].Turn.Cause)
	c.Recall(c.round.now, &items[0])
	require.Zero(t, c.Index.LowWatermark(), "it was only put back")

	require.Equal(t, []string{"a"}, runRound(c, 0, done))
	require.False(t, tracks(c))
	require.Empty(t, take(c))
}

func TestFailedRefreshIsRecorded(t *testing.T) {
	c := recording()
	c.Again(0, row{key: "a"}, 7, false)
	runRound(c, 0, func(it *Operation[row]) Outcome[row] { return failed(it, "down") })
	require.Equal(t, map[string]Recorded{"a": RecordedFailed}, take(c))
	require.Equal(t, uint64(7), c.Index.LowWatermark(), "a wait for the row does not end")
	runRound(c, time.Second, func(it *Operation[row]) Outcome[row] { return failed(it, "down") })
	require.Empty(t, take(c), "the text is the same")
	runRound(c, 10*time.Second, done)
	require.Equal(t, map[string]Recorded{"a": NotRecorded}, take(c))
}

func TestAgainHurriesWhatIsReconciledOrForced(t *testing.T) {
	requeued := func(it *Operation[row]) Outcome[row] {
		return Outcome[row]{Kind: DoneAgain, Delay: time.Hour, Object: it.Obj, NewRevision: it.Revision}
	}
	terminal := func(it *Operation[row]) Outcome[row] {
		out := failed(it, "no")
		out.Kind = FailedForGood
		return out
	}
	for name, c := range map[string]struct {
		first         func(*Operation[row]) Outcome[row]
		forced, wants bool
	}{
		"requeue":          {requeued, false, true},
		"terminal":         {terminal, false, false},
		"terminal, forced": {terminal, true, true},
		"failed":           {func(it *Operation[row]) Outcome[row] { return failed(it, "no") }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := recording()
			begin(k, 0, 1, "a")
			items := k.Plan()
			k.Settle(0, &items[0], c.first(&items[0]))
			before, _ := k.NextDue()
			require.False(t, k.Again(time.Millisecond, row{key: "a"}, 1, c.forced))
			due, has := k.NextDue()
			if c.wants {
				require.True(t, has)
				require.LessOrEqual(t, due, 100*time.Millisecond, "the minimum backoff")
			} else {
				require.Equal(t, before, due)
			}
		})
	}
}

// The operation may have read what the caller of Again saw changing.
func TestOutcomeOfARunningOperationDoesNotCountAfterAgain(t *testing.T) {
	c := recording()
	begin(c, 0, 5, "a")
	items := c.Plan()
	it := items[0]
	require.True(t, c.Again(0, row{key: "a"}, 5, true))
	c.Settle(0, &it, done(&it))
	require.Equal(t, uint64(5), c.Index.LowWatermark())
	require.Equal(t, map[string]Recorded{"a": RecordedPending}, take(c))
	require.Equal(t, []string{"a"}, runRound(c, 0, done))
	require.Equal(t, map[string]Recorded{"a": NotRecorded}, take(c))
	require.Zero(t, c.Index.LowWatermark())
}

func TestUnattemptedChangeHoldsTheMarkUntilItIsRecorded(t *testing.T) {
	c := recording()
	var items []Operation[row]
	for i, key := range []string{"a", "b"} {
		begin(c, time.Duration(i)*time.Millisecond, uint64(5+i), key)
		items = append(items, c.Plan()...)
	}
	since, observed, holds := c.Index.HoldsSince()
	require.True(t, holds)
	require.Equal(t, uint64(5), since)
	require.Zero(t, observed)
	require.Empty(t, take(c))

	require.Equal(t, map[string]Recorded{"a": RecordedPending}, takeUntil(c, 0))
	since, observed, _ = c.Index.HoldsSince()
	require.Equal(t, uint64(6), since)
	require.Equal(t, time.Millisecond, observed)
	require.Equal(t, uint64(4), c.Index.Attempted(6), "a record is no attempt")

	c.Settle(0, &items[1], done(&items[1]))
	require.Empty(t, take(c), "it was never recorded")
	c.Settle(0, &items[0], done(&items[0]))
	require.Equal(t, map[string]Recorded{"a": NotRecorded}, take(c))
}

// There is no version yet that the change could be compared with.
func TestChangeAfterAForcedRunIsComparedWithNoEmptyObject(t *testing.T) {
	c := recording()
	c.same = func(older, newer row) bool {
		require.Equal(t, "a", older.key)
		return false
	}
	begin(c, 0, 5, "a")
	it := c.Plan()[0]
	require.True(t, c.Again(0, row{key: "a"}, 5, true))
	begin(c, 0, 6, "a")
	begin(c, 0, 7, "a")
	out := done(&it)
	out.Lost = true
	c.Settle(0, &it, out)
	check(t, c)
	require.Equal(t, uint64(7), c.Index.LowWatermark())
}
