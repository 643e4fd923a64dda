// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"time"

	"github.com/stretchr/testify/require"
)

// testingT is the part of a test that the checks use. *testing.T and *rapid.T implement it.
type testingT interface {
	require.TestingT
	Helper()
}

// same requires two values to be equal, like require.Equal but a hundred times faster: the checks
// compare a lot.
func same[T comparable](t testingT, want, got T, message ...any) {
	if want != got {
		t.Helper()
		require.Equal(t, want, got, message...)
	}
}

// check requires that the parts of a core agree with each other between two rounds. It checks
// everything, so a test that calls it after every step finds the step that broke an invariant.
func check[Obj any](t testingT, c *Core[Obj]) {
	for key, e := range c.keys.entries {
		require.NotEqual(t, Taken, e.state, "%q is in a round that has ended", key)
	}
	checkInRound(t, c)
	checkGroups(t, c)
}

// checkInRound is the part of check that holds after every call, also during a round.
func checkInRound[Obj any](t testingT, c *Core[Obj]) {
	checkEntries(t, c)
	checkDue(t, c)
	checkLanes(t, c)
	checkUnreconciled(t, c)
	checkTouched(t, c)
	checkBreaker(t, c)
}

// checkEntries requires that the counts match the entries.
func checkEntries[Obj any](t testingT, c *Core[Obj]) {
	var counts [NumStates]int
	failing, blocked, refreshes := 0, 0, 0
	for key, e := range c.keys.entries {
		if (e.state == InFlight || e.state == Ready) && e.version.lane == Refresh {
			refreshes++
		}
		if e.later != nil {
			same(t, InFlight, e.state, "%q was overtaken and is not in flight", key)
			require.LessOrEqual(t, e.version.revision, e.later.revision, "%q was overtaken by an older version", key)
		}
		same(t, rowAsks, e.version.asks, "%q asks for no operation", key)
		same(t, key, e.key, "key of the entry")
		same(t, key, string(c.keys.of(e.version.obj)), "key of the object")
		counts[e.state]++
		switch e.past.result {
		case hasFailed:
			failing++
		case wasBlocked:
			blocked++
			require.Contains(t, []State{Ready, InFlight, Queued, Paused, Blocked, Taken}, e.state, "%q is blocked", key)
		}
	}
	require.Equal(t, counts, c.Index.figures.States, "counts by state")
	same(t, failing, c.Index.figures.Failing, "failing keys")
	same(t, blocked, c.Index.figures.Blocked, "blocked keys")
	same(t, refreshes, c.Index.figures.Refreshing, "refreshes ready or in flight")
	require.GreaterOrEqual(t, blocked, counts[Blocked], "blocked keys")
	require.GreaterOrEqual(t, c.keys.peak, len(c.keys.entries), "peak")
}

// checkTouched requires that exactly those entries are listed that say so, and that each entry is whose
// record differs from the one that was taken.
func checkTouched[Obj any](t testingT, c *Core[Obj]) {
	listed := map[*entry[Obj]]bool{}
	for _, e := range c.Index.touched {
		require.False(t, listed[e], "%q is listed twice", e.key)
		require.True(t, e.indexed.touched, "%q is listed", e.key)
		listed[e] = true
	}
	for key, e := range c.keys.entries {
		require.True(t, listed[e] || !e.indexed.touched, "%q is not listed", key)
		if c.Index.records && !e.indexed.touched {
			same(t, e.recordKind(), e.indexed.recorded, "the record of %q", key)
		}
	}
}

// checkDue requires that the heap due has the entries that wait for a time, each at its position.
func checkDue[Obj any](t testingT, c *Core[Obj]) {
	var timed []*entry[Obj]
	for key, e := range c.keys.entries {
		switch e.state {
		case Held, Retry, Requeue:
			require.NotEqual(t, int32(-1), e.pos, "%q in state %s is not in the heap", key, e.state)
			timed = append(timed, e)
		case Blocked:
			if e.pos >= 0 {
				timed = append(timed, e)
			}
		default:
			same(t, int32(-1), e.pos, "%q in state %s is in the heap", key, e.state)
		}
	}
	same(t, len(timed), c.queues.due.Len(), "length of the heap")
	if len(timed) == 0 {
		return
	}
	places := map[int32]bool{}
	first := timed[0]
	for _, e := range timed {
		require.Less(t, int(e.pos), c.queues.due.Len(), "position of %q in the heap", e.key)
		require.False(t, places[e.pos], "position of %q in the heap is used twice", e.key)
		places[e.pos] = true
		if e.dueAt < first.dueAt {
			first = e
		}
	}
	_, at, _ := c.queues.due.Min()
	same(t, first.dueAt, time.Duration(at), "time of the first due entry")
}

// checkLanes requires that the lanes have exactly the ready entries, and that no other entry is in
// a queue, except those that wait for a group or for the end of a backoff.
func checkLanes[Obj any](t testingT, c *Core[Obj]) {
	ready := 0
	for lane := range c.queues.lanes {
		ready += checkQueue(t, c, &c.queues.lanes[lane], Ready, func(e *entry[Obj]) {
			same(t, Lane(lane), e.version.lane, "lane of %q", e.key)
		})
	}
	same(t, c.Index.figures.States[Ready], ready, "keys in the lanes")
	for key, e := range c.keys.entries {
		switch {
		case e.state == Ready, e.state == Queued, e.backsOff():
		default:
			require.Nil(t, e.prev, "%q in state %s is in a queue", key, e.state)
			require.Nil(t, e.next, "%q in state %s is in a queue", key, e.state)
		}
	}
}

// checkQueue checks the links of a queue, requires that all its entries are in the given state, and
// returns their number.
func checkQueue[Obj any](t testingT, c *Core[Obj], q *queue[Obj], s State, each func(e *entry[Obj])) int {
	n := 0
	var prev *entry[Obj]
	for e := q.head; e != nil; prev, e = e, e.next {
		require.Same(t, prev, e.prev, "link back from %q", e.key)
		require.Same(t, c.keys.entries[e.key], e, "entry of %q", e.key)
		same(t, s, e.state, "state of %q", e.key)
		each(e)
		n++
	}
	require.Same(t, prev, q.tail, "tail")
	same(t, n, q.size, "size")
	return n
}

// checkUnreconciled requires that the heaps unreconciled and untried have exactly the entries that the
// rules say, and that every key that failed is unreconciled.
func checkUnreconciled[Obj any](t testingT, c *Core[Obj]) {
	unreconciled, untried := 0, [untriedHeaps]int{}
	c.Index.unreconciled.Ascend(func(o unreconciledEntry[Obj], since int64) bool {
		require.Same(t, c.keys.entries[o.key], o.entry, "entry of %q", o.key)
		same(t, o.entry.unreconciled().since, uint64(since), "%q is unreconciled", o.key)
		require.LessOrEqual(t, uint64(since), c.Index.newestSince, "newest revision in the heap")
		return true
	})
	for i := range c.Index.untried {
		c.Index.untried[i].Ascend(func(o untriedEntry[Obj], since int64) bool {
			require.Same(t, c.keys.entries[o.key], o.entry, "entry of %q", o.key)
			same(t, i == untriedRecorded, o.indexed.recorded != NotRecorded, "heap of untried %q", o.key)
			same(t, o.untriedSince(), uint64(since), "since of untried %q", o.key)
			return true
		})
	}
	for key, e := range c.keys.entries {
		since := e.unreconciled().since
		if since > 0 {
			unreconciled++
		}
		if e.untriedSince() > 0 {
			if e.indexed.recorded != NotRecorded {
				untried[untriedRecorded]++
			} else {
				untried[untriedHeld]++
			}
			require.NotZero(t, since, "%q is untried and reconciled", key)
		}
		if e.state != Taken && (e.past.result == hasFailed || e.past.failures > 0) {
			require.NotZero(t, since, "%q fails and is reconciled", key)
		}
	}
	same(t, unreconciled, c.Index.unreconciled.Len(), "entries in the heap unreconciled")
	for i := range untried {
		same(t, untried[i], c.Index.untried[i].Len(), "entries in a heap untried")
	}
}

// checkGroups requires that each group has a holder, and that other keys of it are queued.
func checkGroups[Obj any](t testingT, c *Core[Obj]) {
	queued := 0
	for name, g := range c.queues.groups.byName {
		same(t, name, g.name, "name of the group")
		require.NotNil(t, g.holder, "group %q has no holder", name)
		require.Same(t, c.keys.entries[g.holder.key], g.holder, "entry of %q", g.holder.key)
		require.Same(t, g, g.holder.group, "group of %q", g.holder.key)
		queued += checkQueue(t, c, &g.waiting, Queued, func(e *entry[Obj]) {
			require.Same(t, g, e.group, "group of %q", e.key)
		})
	}
	same(t, c.Index.figures.States[Queued], queued, "keys that wait for their group")
	for key, e := range c.keys.entries {
		switch {
		case e.group == nil:
		case e.state == Queued:
			require.NotSame(t, e, e.group.holder, "%q waits for itself", key)
		default:
			// A holder is in flight, ready or due: it waits for its turn only.
			require.Same(t, e, e.group.holder, "%q in state %s does not hold its group", key, e.state)
			require.Contains(t, []State{InFlight, Ready, Retry, Requeue, Held, Blocked}, e.state, "%q holds its group", key)
			if e.state != InFlight && e.state != Ready {
				require.LessOrEqual(t, e.dueAt, c.round.now, "%q in state %s holds its group", key, e.state)
			}
		}
	}
}

// checkBreaker requires that the breaker has the keys that wait for their backoff after a failure that counted.
func checkBreaker[Obj any](t testingT, c *Core[Obj]) {
	b := &c.Breaker
	backingOff := 0
	for _, e := range c.keys.entries {
		if e.backsOff() {
			backingOff++
		}
	}
	same(t, backingOff, checkQueue(t, c, &c.queues.backingOff, Retry, func(e *entry[Obj]) {
		require.True(t, e.backsOff(), "%q is in the queue of the breaker", e.key)
	}), "keys that wait for their backoff")
	switch {
	case b.BreakerConfig == nil:
		require.False(t, b.open, "open without a configuration")
	case b.open:
		require.LessOrEqual(t, b.probesRunning, b.Probes, "running probes")
	default:
		require.Zero(t, b.probesRunning, "a closed breaker has running probes")
		require.Less(t, len(b.failed), b.Failures, "keys that failed in a row")
	}
}

// tracks reports whether any key has an entry.
func tracks[Obj any](c *Core[Obj]) bool { return len(c.keys.entries) > 0 }
