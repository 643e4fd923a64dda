// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// catchingUp returns a core whose records are taken, in a round with a catch-up cursor.
func catchingUp() *Core[row] {
	cfg := smallConfig(10)
	cfg.Records = true
	c := New(cfg)
	c.Begin(0, 10, 5)
	return c
}

// records takes the records of a core.
func records(c *Core[row]) (taken []Record[row]) {
	c.TakeRecords(func(r Record[row]) { taken = append(taken, r) })
	return taken
}

// requireRecordedPending requires that the only record taken is that of a change which waits, and
// that no change holds the mark.
func requireRecordedPending(t *testing.T, c *Core[row], key string, revision uint64) {
	t.Helper()
	taken := records(c)
	require.Len(t, taken, 1)
	require.Equal(t, key, taken[0].Key)
	require.Equal(t, revision, taken[0].Revision)
	require.Equal(t, RecordedPending, taken[0].Kind)
	_, holds := c.HoldsSince()
	require.False(t, holds)
}

// The catch-up cursor reads a version, and then main an older one. The change holds the mark below
// the older one, so it would not show in an interval that has the later one.
func TestChangeWithAnOlderVersionIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	c.see(row{key: "a"}, 100, false, Fresh)
	require.Empty(t, records(c))
	c.see(row{key: "a"}, 20, false, Backlog)
	requireRecordedPending(t, c, "a", 100)
}

func TestLaterChangeWithAnOlderVersionIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	c.Again(0, row{key: "a"}, 10, false)
	items := c.Plan()
	require.Len(t, items, 1)
	c.Launch(&items[0])
	c.End(1)
	c.Begin(0, 10, 5)
	c.see(row{key: "a"}, 100, false, Fresh)
	require.Empty(t, records(c))
	c.see(row{key: "a"}, 20, false, Backlog)
	requireRecordedPending(t, c, "a", 100)
}

// A change that is held counts as attempted, so it does not hold the mark.
func TestHeldChangeIsRecordedAfterItsItemIsRecalled(t *testing.T) {
	c := recording()
	begin(c, 0, 1, "a")
	it := c.Plan()[0]
	c.Launch(&it)
	c.End(1)
	begin(c, time.Millisecond, 2, "a")
	c.End(0)
	c.Settle(time.Millisecond, &it, failed(&it, "no"))
	c.Begin(time.Second, 4, 0)
	it = c.Plan()[0]
	c.Launch(&it)
	c.End(1)
	require.Empty(t, records(c), "it holds the mark while it is in flight")
	c.Recall(time.Second, &it)
	require.Equal(t, Held, c.find(row{key: "a"}).state)
	requireRecordedPending(t, c, "a", 2)
}

// The catch-up cursor reads deletions apart from objects, so an interval may have them already.
func TestDeletionReadLateIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	c.see(row{key: "a"}, 100, false, Fresh)
	items := c.Plan()
	c.Settle(0, &items[0], done(&items[0]))
	c.End(1)
	c.Begin(0, 10, 5)
	c.see(row{key: "b"}, 50, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
}

// An orphan is unreconciled since a revision that an interval may have.
func TestDeletionOfAnOrphanIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	require.True(t, c.AddOrphan(row{key: "b"}, 50))
	require.Empty(t, records(c))
	c.see(row{key: "b"}, 40, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
}

// A version that was looked up may be later than all that were observed, and an interval may show it.
func TestDeletionReadAfterALaterVersionWasAppliedIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	c.see(row{key: "a"}, 20, false, Backlog)
	items := c.Plan()
	require.True(t, c.Renew(&items[0], row{key: "a"}, 100, 100))
	c.Settle(0, &items[0], done(&items[0]))
	c.End(1)
	c.Begin(0, 10, 5)
	c.see(row{key: "b"}, 50, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
}

func TestLaterDeletionReadLateIsRecordedAtOnce(t *testing.T) {
	c := catchingUp()
	c.see(row{key: "b"}, 10, false, Backlog)
	c.see(row{key: "a"}, 100, false, Fresh)
	for _, it := range c.Plan() {
		if it.Obj.key == "a" {
			c.Settle(0, &it, done(&it))
			continue
		}
		c.Launch(&it)
	}
	c.End(2)
	c.Begin(0, 10, 5)
	c.see(row{key: "b"}, 50, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
}
