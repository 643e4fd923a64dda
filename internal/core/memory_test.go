// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An item refers to its entry, also after it was settled: its memory must not belong to another key
// before the next round.
func TestItemIsValidUntilTheNextRound(t *testing.T) {
	c := New(smallConfig(10))
	begin(c, 0, 1, "a")
	items := c.Plan()
	it := items[0]
	c.Settle(0, &it, done(&it))
	require.False(t, c.TracksKeyOf(row{key: "a"}))
	memory := it.entry

	require.True(t, c.AddOrphan(row{key: "b"}, 2))
	require.NotSame(t, memory, c.keys.entries["b"])
	require.Equal(t, "a", memory.key)

	c.Begin(0, 10, false)
	require.Empty(t, *memory, "it keeps no object alive")
	require.True(t, c.AddOrphan(row{key: "c"}, 3))
	require.Same(t, memory, c.keys.entries["c"])
}

// A ledger still has to be told of an entry that was removed.
func TestRemovedEntryIsKeptForItsRecord(t *testing.T) {
	cfg := smallConfig(10)
	cfg.Records = true
	c := New(cfg)
	begin(c, 0, 1, "a")
	items := c.Plan()
	out := done(&items[0])
	out.Kind, out.Text = FailedForGood, new(string)
	c.Settle(0, &items[0], out)
	require.Len(t, records(c), 1)

	begin(c, time.Second, 2, "a")
	items = c.Plan()
	c.Settle(0, &items[0], done(&items[0]))
	c.Begin(time.Second, 10, false)
	taken := records(c)
	require.Len(t, taken, 1)
	require.Equal(t, "a", taken[0].Key)
	require.Equal(t, NotRecorded, taken[0].Kind)
}
