// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// requireSame compares everything that a core reports between two rounds with the model. observed
// is the revision up to which changes were observed.
func (m *model) requireSame(t testingT, c *Core[row], observed uint64) {
	require.ElementsMatch(t, slices.Collect(maps.Keys(m.keys)), slices.Collect(maps.Keys(c.keys.entries)), "keys")
	m.requireStates(t, c)
	m.requireNextDue(t, c)
	m.requireWatermarks(t, c, observed)
	m.requireGroups(t, c)
}

// requireStates compares the states of the keys.
func (m *model) requireStates(t testingT, c *Core[row]) {
	m.takeOverJitter(t, c)
	counts, failing, found := map[State]int{}, 0, 0
	for key, k := range m.keys {
		e := c.keys.entries[key]
		same(t, k.state, e.state, "state of %q: %s, %s in the core", key, k.state, e.state)
		v := &e.version
		same(t, k.obj, v.obj, "object of %q", key)
		same(t, k.version, v.revision, "version of %q", key)
		same(t, k.deleted, v.deleted, "deletion of %q", key)
		same(t, k.failures, int(e.past.failures), "failures of %q", key)
		same(t, min(k.requeues, 255), int(e.past.requeues), "requeues of %q", key)
		same(t, k.tries, int(e.past.tries), "tries of %q", key)
		require.True(t, c.TracksKeyOf(row{key: key}))
		if k.state == Retry {
			same(t, k.fixed, e.past.fixed, "whether the wait of %q is fixed", key)
		}
		if k.clock {
			same(t, k.at, e.dueAt, "%q is due", key)
		}
		if k.failure != "" {
			failing++
			same(t, k.failure, e.past.failure(), "failure of %q", key)
		}
		if k.orphan && (k.state == InFlight || (k.state == Ready || k.state == Queued) && !m.isPaused(k)) {
			found++
		}
		counts[k.state]++
	}
	same(t, found, c.Index.figures.Found, "orphans to delete")
	for s := range NumStates {
		same(t, counts[s], c.Index.figures.States[s], "keys in state %s", s)
	}
	same(t, failing, c.Index.figures.Failing, "failing")
	for lane := range NumLanes {
		var keys []string
		for _, k := range m.ready(lane) {
			keys = append(keys, k.key)
		}
		require.Equal(t, keys, keysInLine(&c.queues.lanes[lane]), "lane %s", lane)
	}
}

func keysInLine(q *queue[row]) (keys []string) {
	for e := q.head; e != nil; e = e.next {
		keys = append(keys, e.key)
	}
	return keys
}

func (m *model) requireNextDue(t testingT, c *Core[row]) {
	var times []time.Duration
	for _, k := range m.keys {
		if k.clock {
			times = append(times, k.at)
		}
		if k.state == Ready {
			times = append(times, 0)
		}
	}
	at, ok := c.NextDue()
	same(t, len(times) > 0, ok, "whether something is due")
	if ok {
		same(t, slices.Min(times), at, "next due")
	}
}

// notesChange reports whether a change was observed that asks for an operation, while one runs.
func (k *modelKey) notesChange() bool {
	return k.note != nil && !k.note.settled
}

// unreconciledSince returns the revision since which a key is unreconciled; 0 if it is reconciled.
func (k *modelKey) unreconciledSince() uint64 {
	if k.since == 0 && k.notesChange() {
		return k.note.since
	}
	return k.since
}

// untried returns the revision of the key's change that counts as not attempted; 0 if there is
// none.
func (m *model) untried(k *modelKey) uint64 {
	if k.unseen {
		return k.since
	}
	if k.notesChange() && (m.paused == nil || !m.paused(k.note.obj)) {
		return k.note.since
	}
	return 0
}

// newest returns the newest version of a key.
func (k *modelKey) newest() modelNote {
	if k.note != nil {
		return *k.note
	}
	return modelNote{obj: k.obj, revision: k.version, deleted: k.deleted}
}

func (m *model) requireWatermarks(t testingT, c *Core[row], observed uint64) {
	low, attempted := uint64(never), observed
	want := map[string]uint64{}
	for key, k := range m.keys {
		if since := k.unreconciledSince(); since > 0 {
			low = min(low, since)
			want[key] = since
		}
		if untried := m.untried(k); untried > 0 {
			attempted = min(attempted, untried-1)
		}
	}
	if low == never {
		low = 0
	}
	same(t, low, c.Index.LowWatermark(), "low watermark")
	same(t, attempted, c.Index.Attempted(observed), "attempted")

	last, told := uint64(0), map[string]uint64{}
	c.Index.Unreconciled(0, func(u UnreconciledKey[row]) bool {
		d := u.Describe()
		k := m.keys[d.Obj.key]
		newest := k.newest()
		expected := d
		expected.Obj, expected.Since, expected.Revision = newest.obj, k.unreconciledSince(), newest.revision
		expected.Deleted, expected.State, expected.Failures, expected.Failure = newest.deleted, k.state, k.failures, k.failure
		expected.Tried = k.tried && !k.orphan && !k.notesChange()
		expected.Paused = m.paused != nil && m.paused(newest.obj) && (k.state != InFlight || k.note != nil)
		require.Equal(t, expected, d, "state of %q", k.key)
		require.LessOrEqual(t, last, d.Since, "keys are out of order")
		require.Equal(t, UnreconciledKey[row]{d.Since, k.key, d.Deleted, u.entry}, u)
		last, told[k.key] = d.Since, d.Since
		one, ok := c.UnreconciledOf(k.key)
		require.True(t, ok)
		same(t, d, one)
		return true
	})
	require.Equal(t, want, told, "unreconciled keys")
	require.Equal(t, len(told), c.Index.CountUnreconciled(math.MaxUint64, len(told)+1), "number of keys")
	older := 0
	for _, since := range told {
		if since < last {
			older++
		}
	}
	if last > 0 {
		require.Equal(t, older, c.Index.CountUnreconciled(last-1, len(told)+1), "number of keys older than the latest")
	}
	for key := range m.keys {
		_, ok := c.UnreconciledOf(key)
		same(t, want[key] > 0, ok, "%q is unreconciled", key)
	}
	if len(want) > 1 {
		n := 0
		c.Index.Unreconciled(0, func(UnreconciledKey[row]) bool { n++; return n < 2 })
		same(t, 2, n, "yield was called after it returned false")
	}
}

// requireGroups compares the holders of the groups and the keys that wait for them.
func (m *model) requireGroups(t testingT, c *Core[row]) {
	holders := map[string]string{}
	for name, g := range c.queues.groups.byName {
		holders[name] = g.holder.key
		for refreshes, line := range map[bool]*queue[row]{false: &g.waiting, true: &g.refreshes} {
			var keys []string
			for _, k := range m.waitingFor(name, refreshes) {
				keys = append(keys, k.key)
			}
			require.Equal(t, keys, keysInLine(line), "keys that wait for group %q, refreshes: %t", name, refreshes)
		}
		same(t, m.refreshed[name], g.refreshed, "whose turn it was in group %q", name)
	}
	require.Equal(t, m.holders, holders, "holders of the groups")
}
