// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// modelRound is what a model knows of the round that is under way.
type modelRound struct {
	number int
	now    time.Duration
	// size is how many operations there may be, maxFresh how many fresh changes may be ahead of
	// their turn; 0 if there is one cursor.
	size, maxFresh int
	// reserved is how many of the keys that are due the round has to take.
	reserved int
	// changes are the keys that were observed, in that order.
	changes []*modelKey
}

// begin starts a round.
func (m *model) begin(now time.Duration, size, maxFresh int) {
	m.round = modelRound{number: m.round.number + 1, now: now, size: min(size, m.limits.RoundSize), maxFresh: maxFresh}
	m.beginProbes(now)
	m.round.reserved = min(len(m.due()), m.guaranteed())
}

// due returns the keys whose time has come.
func (m *model) due() []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.clock && k.at <= m.round.now })
}

// place returns the lane to which the ith place of the round belongs.
func (m *model) place(i int) Lane { return places[(m.ran+i)%len(places)] }

// guaranteed returns how many places of the round are for keys that are due.
func (m *model) guaranteed() int {
	n := 0
	for i := range m.round.size {
		if m.place(i) == dueLane {
			n++
		}
	}
	return n
}

// outlook is what a model knows before it sees a plan.
type outlook struct {
	m *model
	// simple: all that was observed is in the plan, in the order in which it was.
	simple bool
	// candidates may be planned; due are those of them whose time has come.
	candidates, due map[*modelKey]bool
	ready           int
	// nudged are keys that wait for a group, or come to, and whose turn may come while the
	// plan is made: the one that has the group is found to be paused, or to have to wait.
	nudged map[*modelKey]bool
}

func (m *model) lookOut() *outlook {
	o := &outlook{m: m, candidates: map[*modelKey]bool{}, due: map[*modelKey]bool{}, nudged: map[*modelKey]bool{}}
	readyBefore := m.inLine(func(k *modelKey) bool { return k.state == Ready })
	o.simple = len(readyBefore) == 0 && m.paused == nil && !m.grouping && m.round.maxFresh == 0 &&
		len(m.round.changes)+m.round.reserved <= m.round.size
	for _, k := range m.round.changes {
		unseen, unknown := k.unseen, k.unknown && o.simple
		k.ready()
		k.unknown = unknown
		if o.simple {
			k.unseen = unseen
		}
		m.lineUp(k)
	}
	for _, k := range m.inLine(func(k *modelKey) bool { return k.state == Ready }) {
		o.candidates[k] = true
		o.ready++
	}
	for _, k := range m.due() {
		o.candidates[k], o.due[k] = true, true
	}
	for _, k := range m.keys {
		holder := m.keys[m.holders[k.obj.group]]
		waits := k.state == Queued || o.candidates[k] && m.grouping
		if waits && holder != k && o.candidates[holder] && !m.admissible(holder) {
			o.nudged[k] = true
		}
	}
	return o
}

// admissible reports whether a key may be run, as far as its group does not matter.
func (m *model) admissible(k *modelKey) bool {
	state := k.state
	if state == Queued {
		state = k.from
	}
	return !m.isPaused(k) && !(state == Retry && m.barred(k))
}

// plan checks a plan, and takes over what is a choice.
func (m *model) plan(t testingT, c *Core[row], items []Item[row]) {
	m.takeOverJitter(t, c)
	o := m.lookOut()
	planned := o.requireItems(t, items)
	switch {
	case len(o.nudged) > 0:
		// Where a group moves on the rest of the plan does.
		o.requireLaneOrder(t, c, items)
	case o.simple:
		o.requireFull(t, c, items)
		o.requireObservedOrder(t, items)
	default:
		o.requireFull(t, c, items)
		o.requireLaneOrder(t, c, items)
		o.requirePlaces(t, c, items)
	}
	o.takeOver(t, c, planned)
	if b := m.global(); b != nil {
		b.probing += len(items)
		b.came = probeNotRun
	}
}

// requireItems checks that the items are of keys that may be run, and say so.
func (o *outlook) requireItems(t testingT, items []Item[row]) map[*modelKey]bool {
	m := o.m
	require.LessOrEqual(t, len(items), m.round.size, "items")
	planned := map[*modelKey]bool{}
	for i := range items {
		it := &items[i]
		key := it.Obj.key
		k := m.keys[key]
		require.NotNil(t, k, "%q is planned, and reconciled", key)
		require.False(t, planned[k], "%q is in the plan twice", key)
		planned[k] = true
		require.True(t, o.candidates[k] || o.nudged[k], "%q in state %s is planned", key, k.state)
		require.True(t, m.admissible(k), "%q is paused or held back, and planned", key)
		same(t, k.obj, it.Obj, "object of %q", key)
		same(t, k.version, it.Revision, "revision of %q", key)
		same(t, k.deleted, it.Deleted, "%q is deleted", key)
		same(t, k.failures, it.Attempt(), "attempts of %q", key)
		same(t, k.tries, it.Tries(), "tries of %q", key)
		same(t, k.lane, it.Lane(), "lane of %q", key)
		same(t, k.mark, it.Mark, "mark of %q", key)
		same(t, k.unknown, !it.HasEntry(), "%q is not known", key)
		// One that the group has let go waits for its time again.
		timed := o.due[k] || k.state == Queued && k.from != Ready
		same(t, timed || k.seen != m.round.number, it.Again, "%q is planned again", key)
		if b := m.global(); b != nil {
			same(t, b.opening, int(it.probe), "%q passes the breaker", key)
		} else {
			require.Zero(t, it.probe, "%q passes no breaker", key)
		}
	}
	return planned
}

// handled reports whether a round has taken a key up, be it only to find that it may not
// be run.
func handled(c *Core[row], k *modelKey) bool {
	e := c.entries[k.key]
	return e == nil || e.state != k.state
}

// requireFull checks that what was left behind was left for want of room.
func (o *outlook) requireFull(t testingT, c *Core[row], items []Item[row]) {
	dueItems := 0
	for i := range items {
		if o.due[o.m.keys[items[i].Obj.key]] {
			dueItems++
		}
	}
	for k := range o.candidates {
		switch {
		case handled(c, k):
		case o.due[k]:
			share := o.m.round.size - o.ready
			if !o.simple {
				share = max(share, o.m.guaranteed())
			}
			same(t, share, dueItems, "due keys in the plan, while %q is left", k.key)
		default:
			require.Len(t, items, o.m.round.size, "items, while %q is left", k.key)
		}
	}
}

// requireLaneOrder checks that the keys of a lane, and those that are due, come in their
// order, and that those that were left behind come after those that were not.
func (o *outlook) requireLaneOrder(t testingT, c *Core[row], items []Item[row]) {
	o.requireDueOrder(t, items)
	inPlan := map[Lane][]*modelKey{}
	for i := range items {
		k := o.m.keys[items[i].Obj.key]
		if !o.due[k] && !o.nudged[k] {
			inPlan[k.lane] = append(inPlan[k.lane], k)
		}
	}
	for lane, keys := range inPlan {
		require.True(t, slices.IsSortedFunc(keys, func(a, b *modelKey) int { return cmp.Compare(a.place, b.place) }),
			"lane %s is out of order", lane)
	}
	for left := range o.candidates {
		for taken := range o.candidates {
			if handled(c, left) || !handled(c, taken) || o.due[left] != o.due[taken] || o.nudged[left] || o.nudged[taken] {
				continue
			}
			if o.due[left] {
				require.LessOrEqual(t, taken.at, left.at, "%q was taken up before %q", taken.key, left.key)
			} else if left.lane == taken.lane {
				require.Less(t, taken.place, left.place, "%q was taken up before %q", taken.key, left.key)
			}
		}
	}
}

func (o *outlook) requireDueOrder(t testingT, items []Item[row]) {
	var due []*modelKey
	for i := range items {
		if k := o.m.keys[items[i].Obj.key]; o.due[k] && !o.nudged[k] {
			due = append(due, k)
		}
	}
	require.True(t, slices.IsSortedFunc(due, func(a, b *modelKey) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.version, b.version))
	}), "due keys are out of order")
}

// requireObservedOrder checks that everything that was observed is in the plan, in that
// order, and that what is due has every fourth place.
func (o *outlook) requireObservedOrder(t testingT, items []Item[row]) {
	o.requireDueOrder(t, items)
	var changes []*modelKey
	left := len(items) - len(o.m.round.changes)
	for i := range items {
		k := o.m.keys[items[i].Obj.key]
		if o.due[k] {
			require.True(t, o.m.place(i) == dueLane || len(changes) == len(o.m.round.changes), "due %q has place %d", k.key, i)
			left--
			continue
		}
		require.True(t, o.m.place(i) != dueLane || left == 0, "place %d is for a due key, and %q has it", i, k.key)
		changes = append(changes, k)
	}
	require.Equal(t, o.m.round.changes, changes, "changes")
}

// requirePlaces checks that each lane has its places, and that what it does not need others
// have in the order of their rest.
func (o *outlook) requirePlaces(t testingT, c *Core[row], items []Item[row]) {
	// wanting counts what of a lane is still to come after a place, or left behind.
	wanting := map[Lane]int{}
	laneOf := func(k *modelKey) Lane {
		if o.due[k] {
			return dueLane
		}
		return k.lane
	}
	for i := range items {
		wanting[laneOf(o.m.keys[items[i].Obj.key])]++
	}
	for k := range o.candidates {
		if !o.due[k] && !handled(c, k) {
			wanting[k.lane]++
		}
	}
	for i := range items {
		k := o.m.keys[items[i].Obj.key]
		wants, has := o.m.place(i), laneOf(k)
		wanting[has]--
		if has == wants {
			continue
		}
		require.Zero(t, wanting[wants], "place %d is for lane %d, and %q of lane %d has it", i, wants, k.key, has)
		if twin, ok := map[Lane]Lane{Backlog: Resumption, Resumption: Backlog}[wants]; ok {
			if has == twin {
				continue
			}
			require.Zero(t, wanting[twin], "place %d is rather for lane %s than for %q", i, twin, k.key)
		}
		for _, lane := range fallbacks {
			if lane == has {
				break
			}
			require.Zero(t, wanting[lane], "place %d is rather for lane %s than for %q", i, lane, k.key)
		}
	}
}
