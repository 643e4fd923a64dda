// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// testingT is what the checks need of a test: *testing.T and *rapid.T have it.
type testingT interface {
	require.TestingT
	Helper()
}

// check requires that the parts of a core agree with each other between two rounds. It
// looks at everything, so that a test may call it after every step and find the step
// that broke something, not the one that stumbled over it.
func check[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	checkEntries(t, c)
	checkDue(t, c)
	checkReady(t, c)
	checkByRevision(t, c)
	checkRoundIsEmpty(t, c)
}

// checkEntries: each key is in exactly one state, and the counts say so.
func checkEntries[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	var counts [numStates]int
	failing := 0
	for key, e := range c.entries {
		require.Equal(t, key, e.key, "key of the entry")
		require.Equal(t, key, string(c.keyOf(e.obj)), "key of the object")
		require.NotEqual(t, Planned, e.state, "%q is in a round that has ended", key)
		counts[e.state]++
		if e.failure != nil {
			failing++
		}
	}
	require.Equal(t, counts, c.counts, "counts by state")
	require.Equal(t, failing, c.failing, "failing keys")
	require.GreaterOrEqual(t, c.peak, len(c.entries), "peak")
}

// checkDue: the heap holds the entries that wait for a clock, each at its place.
func checkDue[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	var clocks []*entry[Obj]
	for key, e := range c.entries {
		switch e.state {
		case Held, Retry, Requeue:
			require.NotEqual(t, int32(-1), e.pos, "%q in state %s is not in the heap", key, e.state)
			clocks = append(clocks, e)
		case Blocked:
			if e.pos >= 0 {
				clocks = append(clocks, e)
			}
		case Awaited, Terminal:
			require.Equal(t, int32(-1), e.pos, "%q in state %s waits for a clock", key, e.state)
		}
	}
	require.Equal(t, len(clocks), c.due.Len(), "length of the heap")
	if len(clocks) == 0 {
		return
	}
	places := map[int32]bool{}
	first := clocks[0]
	for _, e := range clocks {
		require.Less(t, int(e.pos), c.due.Len(), "place of %q in the heap", e.key)
		require.False(t, places[e.pos], "place of %q in the heap is taken twice", e.key)
		places[e.pos] = true
		if e.dueAt < first.dueAt {
			first = e
		}
	}
	_, at, _ := c.due.Min()
	require.Equal(t, first.dueAt, time.Duration(at), "the first that is due")
}

// checkReady: exactly the ready entries, the oldest change first.
func checkReady[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	require.Len(t, c.ready, c.counts[Ready], "ready")
	for _, e := range c.ready {
		require.Equal(t, Ready, e.state, "state of %q", e.key)
		require.Equal(t, int32(-1), e.pos, "%q is in the heap", e.key)
		require.Same(t, c.entries[e.key], e, "entry of %q", e.key)
	}
	require.True(t, slices.IsSortedFunc(c.ready, func(a, b *entry[Obj]) int {
		return int(a.since) - int(b.since)
	}), "ready is out of order")
}

// checkByRevision: the list links, in order, exactly the entries that say so; and
// whatever owes a change or failed is among them.
func checkByRevision[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	listed := 0
	var prev *entry[Obj]
	for e := c.byRevision.head; e != nil; prev, e = e, e.next {
		require.Same(t, prev, e.prev, "link back from %q", e.key)
		require.Same(t, c.entries[e.key], e, "entry of %q", e.key)
		require.True(t, e.listed, "%q", e.key)
		if prev != nil {
			require.LessOrEqual(t, prev.since, e.since, "%q is behind %q", e.key, prev.key)
		}
		listed++
	}
	require.Same(t, prev, c.byRevision.tail, "tail")
	for key, e := range c.entries {
		if e.listed {
			listed--
		}
		switch e.state {
		case Held, Ready, Blocked, Terminal:
			require.True(t, e.listed, "%q in state %s is not listed", key, e.state)
		case Requeue:
			require.False(t, e.listed, "%q is reconciled and listed", key)
		}
		if e.failure != nil || e.failures > 0 {
			require.True(t, e.listed, "%q fails and is not listed", key)
		}
	}
	require.Zero(t, listed, "entries that say they are listed, and are not")
}

// checkRoundIsEmpty: what belongs to a round pins no object after it.
func checkRoundIsEmpty[Obj any](t testingT, c *Core[Obj]) {
	t.Helper()
	require.Empty(t, c.round.unlisted)
	for _, item := range c.round.changes[:cap(c.round.changes)] {
		require.Zero(t, item.Revision, "a change is pinned")
	}
	for _, item := range c.round.items[:cap(c.round.items)] {
		require.Zero(t, item.Revision, "an item is pinned")
	}
	for _, slots := range [][]*entry[Obj]{c.round.due, c.round.ready} {
		require.Empty(t, slots)
		for _, e := range slots[:cap(slots)] {
			require.Nil(t, e, "an entry is pinned")
		}
	}
	for _, e := range c.ready[len(c.ready):cap(c.ready)] {
		require.Nil(t, e, "an entry that was ready is pinned")
	}
}

// listing returns what is owed, by key.
func listing[Obj any](c *Core[Obj]) map[string]uint64 {
	owed := map[string]uint64{}
	for e := c.byRevision.head; e != nil; e = e.next {
		owed[e.key] = e.since
	}
	return owed
}

// requireAppended requires that what is owed since an earlier listing comes behind all
// that was: no search went past the end of what was there.
func requireAppended[Obj any](t testingT, c *Core[Obj], before map[string]uint64) {
	t.Helper()
	appended := ""
	for e := c.byRevision.head; e != nil; e = e.next {
		if since, ok := before[e.key]; !ok || since != e.since {
			appended = e.key
			continue
		}
		require.Empty(t, appended, "%q was put before %q, which was listed already", appended, e.key)
	}
}
