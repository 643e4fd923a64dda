// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"

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
