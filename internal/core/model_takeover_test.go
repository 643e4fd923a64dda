// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"

	"github.com/stretchr/testify/require"
)

// takeOver puts the keys of the model into the states that the core has chosen, if they are
// allowed.
func (o *outlook) takeOver(t testingT, c *Core[row], planned map[*modelKey]bool) {
	m := o.m
	before := map[*modelKey]State{}
	for k := range o.candidates {
		before[k] = k.state
	}
	for k := range o.nudged {
		before[k] = k.state
	}
	for k := range before {
		o.takeOverKey(t, c, k, planned[k])
	}
	m.takeOverGroups(t, c, before, planned)
	for name, g := range c.groups {
		m.takeOverLine(t, &g.waiting, before, "group "+name)
	}
	for class, b := range c.breakers {
		m.takeOverLine(t, &b.held, before, "breaker "+class)
	}
	if len(o.nudged) > 0 {
		for lane := range c.lanes {
			m.takeOverLine(t, &c.lanes[lane], nil, Lane(lane).String())
		}
	}
}

// takeOverKey checks the state that the core has chosen for a key, and adopts it.
func (o *outlook) takeOverKey(t testingT, c *Core[row], k *modelKey, planned bool) {
	m := o.m
	if k.state != Queued {
		k.from = k.state
	}
	if planned {
		k.rest(Taken)
		return
	}
	e := c.entries[k.key]
	require.NotNil(t, e, "%q is forgotten", k.key)
	barred := k.from == Retry && m.barred(k)
	switch e.state {
	case Paused:
		require.True(t, m.isPaused(k), "%q must not be paused", k.key)
		// takeOverGroups makes it leave its group.
		k.rest(Paused)
		k.unseen = false
		m.unprobe(k, m.round.now, probeNotRun)
	case Tripped:
		if k.probe && o.nudged[k] {
			// It waited for its group, which became free during planning.
			m.unprobe(k, m.round.now, probeNotRun)
			barred = k.from == Retry && m.barred(k)
		}
		require.True(t, barred && !m.isPaused(k), "%q must not wait for a breaker", k.key)
		k.rest(Tripped)
	case Queued:
		if k.state == Queued {
			return
		}
		require.True(t, m.grouping && k.obj.group != "", "%q has no group to wait for", k.key)
		require.True(t, !barred && !m.isPaused(k), "%q must not wait for its group", k.key)
		k.rest(Queued)
		m.unprobe(k, m.round.now, probeNotRun)
	default:
		if k.probe && o.nudged[k] && e.probedOpening == 0 {
			// It waited for its group, which became free during planning.
			m.unprobe(k, m.round.now, probeNotRun)
		}
		same(t, k.from, e.state, "%q was not planned", k.key)
		if k.state == Queued && e.state == Ready {
			m.readyOrPaused(k)
		} else if k.state == Queued {
			m.wake(k, k.from, k.at)
		}
	}
}

// takeOverGroups adopts the holders of the groups. A key that held its group keeps it, unless it
// may not be run. A planned key holds its group.
func (m *model) takeOverGroups(t testingT, c *Core[row], before map[*modelKey]State, planned map[*modelKey]bool) {
	for group, key := range m.holders {
		if k := m.keys[key]; k.state == Paused || k.state == Tripped {
			k.group = ""
			delete(m.holders, group)
		}
	}
	for k := range before {
		e := c.entries[k.key]
		if !m.grouping && k.group == "" || k.state == Paused || k.state == Tripped {
			k.group = ""
			continue
		}
		switch {
		case planned[k] && k.obj.group == "", k.state != Queued && !planned[k] && e.group == nil:
			k.group = ""
			continue
		}
		k.group = k.obj.group
		if k.state == Queued {
			continue
		}
		holder, taken := m.holders[k.group]
		require.True(t, !taken || holder == k.key, "%q and %q hold group %q", holder, k.key, k.group)
		m.holders[k.group] = k.key
	}
	for k := range before {
		if k.state == Queued {
			require.NotEmpty(t, m.holders[k.group], "%q waits for group %q, which has no holder", k.key, k.group)
		}
	}
}

// takeOverLine adopts the order of a queue. Keys that were in it before come first, in their order.
// New keys follow; those that were due are in the order of their times, those of a lane in its
// order.
func (m *model) takeOverLine(t testingT, q *queue[row], before map[*modelKey]State, what string) {
	var old, fresh []*modelKey
	for e := q.head; e != nil; e = e.next {
		k := m.keys[e.key]
		if s, changed := before[k]; changed && s != k.state {
			fresh = append(fresh, k)
			continue
		}
		require.Empty(t, fresh, "%q went to the end of %s", k.key, what)
		old = append(old, k)
	}
	if before != nil {
		require.True(t, slices.IsSortedFunc(old, func(a, b *modelKey) int { return cmp.Compare(a.place, b.place) }),
			"%s is out of order", what)
		for i := 1; i < len(fresh); i++ {
			a, b := fresh[i-1], fresh[i]
			switch {
			case a.from == Ready && b.from == Ready && a.lane == b.lane:
				require.Less(t, a.place, b.place, "%q before %q in %s", a.key, b.key, what)
			case a.from != Ready && b.from != Ready:
				require.LessOrEqual(t, a.at, b.at, "%q before %q in %s", a.key, b.key, what)
			}
		}
		for _, k := range fresh {
			m.lineUp(k)
		}
		return
	}
	for _, k := range old {
		m.lineUp(k)
	}
}
