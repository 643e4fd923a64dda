// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// modelRound is the current round of a model.
type modelRound struct {
	number int
	now    time.Duration
	// size and maxFresh are the arguments of Core.Begin, size at most the round size.
	size, maxFresh int
	// reserved is the number of due keys that the round must take.
	reserved int
	// changes has the observed keys, in the order of their observation.
	changes []*modelKey
}

// begin begins a round.
func (m *model) begin(now time.Duration, size, maxFresh int) {
	m.round = modelRound{number: m.round.number + 1, now: now, size: min(size, m.limits.RoundSize), maxFresh: maxFresh}
	m.beginProbes(now)
	m.round.reserved = min(len(m.due()), m.guaranteed())
}

// due returns the due keys.
func (m *model) due() []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.clock && k.at <= m.round.now })
}

// place returns the lane of the ith place of the round.
func (m *model) place(i int) Lane { return places[(m.ran+i)%len(places)] }

// guaranteed returns the number of places of the round that are for due keys.
func (m *model) guaranteed() int {
	n := 0
	for i := range m.round.size {
		if m.place(i) == dueLane {
			n++
		}
	}
	return n
}

// outlook is what a model expects of a plan.
type outlook struct {
	m *model
	// simple: all observed keys are in the plan, in the order of their observation.
	simple bool
	// candidates has the keys that may be planned, due those among them that are due. ready is the
	// number of ready keys.
	candidates, due map[*modelKey]bool
	ready           int
	// nudged has the keys that wait for a group, and may get it during planning because its holder
	// is paused or must wait for its breaker.
	nudged map[*modelKey]bool
}

func (m *model) lookOut() *outlook {
	o := &outlook{m: m, candidates: map[*modelKey]bool{}, due: map[*modelKey]bool{}, nudged: map[*modelKey]bool{}}
	readyBefore := m.inLine(func(k *modelKey) bool { return k.state == Ready })
	o.simple = len(readyBefore) == 0 && m.paused == nil && !m.grouping && m.round.maxFresh == 0 &&
		len(m.round.changes)+m.round.reserved <= m.round.size
	for _, k := range m.round.changes {
		unseen, unknown := k.unseen, k.unknown && o.simple
		m.readyOrPaused(k)
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

// admissible reports whether a key may be run, apart from its group.
func (m *model) admissible(k *modelKey) bool {
	state := k.state
	if state == Queued {
		state = k.from
	}
	return !m.isPaused(k) && !(state == Retry && m.barred(k))
}

// plan checks a plan, and adopts its choices.
func (m *model) plan(t testingT, c *Core[row], items []Operation[row]) {
	m.takeOverJitter(t, c)
	o := m.lookOut()
	planned := o.requireItems(t, items)
	switch {
	case len(o.nudged) > 0:
		// If a group gets another holder, the rest of the plan may shift.
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
		if b.probing == 0 {
			b.came = probeNotRun
		}
		b.probing += len(items)
	}
}

// requireItems checks that the items are of keys that may be run, and describe them correctly.
func (o *outlook) requireItems(t testingT, items []Operation[row]) map[*modelKey]bool {
	m := o.m
	require.LessOrEqual(t, len(items), m.round.size, "items")
	planned := map[*modelKey]bool{}
	for i := range items {
		it := &items[i]
		key := it.Obj.key
		k := m.keys[key]
		require.NotNil(t, k, "%q is planned and reconciled", key)
		require.False(t, planned[k], "%q is in the plan twice", key)
		planned[k] = true
		require.True(t, o.candidates[k] || o.nudged[k], "%q in state %s is planned", key, k.state)
		require.True(t, m.admissible(k), "%q is planned, and paused or behind a breaker", key)
		same(t, k.obj, it.Obj, "object of %q", key)
		same(t, k.version, it.Revision, "revision of %q", key)
		same(t, k.deleted, it.Deleted, "%q is deleted", key)
		same(t, k.failures, int(it.Failures), "attempts of %q", key)
		same(t, k.tries, int(it.Tries), "tries of %q", key)
		same(t, k.lane, it.Lane(), "lane of %q", key)
		same(t, k.mark, it.Mark, "mark of %q", key)
		same(t, k.unknown, !it.HasEntry(), "whether %q has no entry", key)
		// A key whose group became free waits for its time again.
		timed := o.due[k] || k.state == Queued && k.from != Ready
		same(t, timed || k.seen != m.round.number, it.Again, "%q is planned again", key)
		if b := m.global(); b != nil {
			same(t, b.opening, int(it.probe), "opening that %q probes for", key)
		} else {
			require.Zero(t, it.probe, "%q is no probe", key)
		}
	}
	return planned
}

// handled reports whether the round has taken a key out of its queue, even if only to find that it
// may not be run.
func handled(c *Core[row], k *modelKey) bool {
	e := c.entries[k.key]
	return e == nil || e.state != k.state
}

// requireFull checks that candidates are left only if the plan is full.
func (o *outlook) requireFull(t testingT, c *Core[row], items []Operation[row]) {
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

// requireLaneOrder checks that the keys of each lane, and the due keys, are in order, and that no
// key is left that comes before a planned one.
func (o *outlook) requireLaneOrder(t testingT, c *Core[row], items []Operation[row]) {
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

func (o *outlook) requireDueOrder(t testingT, items []Operation[row]) {
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

// requireObservedOrder checks that all observed keys are in the plan, in the order of their
// observation, and that due keys have every fourth place.
func (o *outlook) requireObservedOrder(t testingT, items []Operation[row]) {
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

// requirePlaces checks that each lane has its places, and that places that it does not need go to
// its partner, and then to the other lanes in the order of fallbacks.
func (o *outlook) requirePlaces(t testingT, c *Core[row], items []Operation[row]) {
	// wanting counts the keys of a lane that come after a place, or are left.
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
			require.Zero(t, wanting[twin], "place %d is for lane %s before %q", i, twin, k.key)
		}
		for _, lane := range fallbacks {
			if lane == has {
				break
			}
			require.Zero(t, wanting[lane], "place %d is for lane %s before %q", i, lane, k.key)
		}
	}
}
