// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// records takes the records of a core. Changes that were observed at 0 do not hold the mark any more.
func records(c *Core[row]) (taken []Record[row]) {
	c.Index.TakeRecords(0, func(r Record[row]) { taken = append(taken, r) })
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
	_, _, holds := c.Index.HoldsSince()
	require.False(t, holds)
}

// A change that is held counts as attempted, so it does not hold the mark.
func TestHeldChangeIsRecordedAfterItsItemIsRecalled(t *testing.T) {
	c := recording()
	begin(c, 0, 1, "a")
	it := c.Plan()[0]
	begin(c, time.Millisecond, 2, "a")
	c.Settle(time.Millisecond, &it, failed(&it, "no"))
	c.Begin(time.Second, 4, false)
	it = c.Plan()[0]
	require.Empty(t, records(c), "it holds the mark while it is in flight")
	c.Recall(time.Second, &it)
	require.Equal(t, Held, c.keys.find(row{key: "a"}).state)
	requireRecordedPending(t, c, "a", 2)
}

// The operation of an orphan that is to run again counts as attempted, until its deletion is read.
func TestDeletionOfAnOrphanThatRunsIsRecorded(t *testing.T) {
	c := recording()
	require.True(t, c.AddOrphan(row{key: "b"}, 50))
	require.Empty(t, records(c))
	c.Begin(0, 4, false)
	require.Len(t, c.Plan(), 1)
	require.True(t, c.Again(0, row{key: "b"}, 60, true))
	c.see(row{key: "b"}, 40, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
	require.Empty(t, records(c))
}

func TestDeletionOfAnOrphanIsRecorded(t *testing.T) {
	c := recording()
	require.True(t, c.AddOrphan(row{key: "b"}, 50))
	require.Empty(t, records(c))
	c.Begin(0, 4, false)
	c.see(row{key: "b"}, 40, true, Deletion)
	requireRecordedPending(t, c, "b", 50)
}
