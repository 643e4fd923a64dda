// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"

	"github.com/stretchr/testify/require"
)

// takeOver makes the model be where the core is, if it may be there.
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

// takeOverKey checks where a key has gone, and puts it there.
func (o *outlook) takeOverKey(t testingT, c *Core[row], k *modelKey, planned bool) {
	m := o.m
	if k.state != Queued {
		k.from = k.state
	}
	if planned {
		k.rest(Planned)
		return
	}
	e := c.entries[k.key]
	require.NotNil(t, e, "%q is forgotten", k.key)
	barred := k.from == Retry && m.barred(k)
	switch e.state {
	case Paused:
		require.True(t, m.isPaused(k), "%q is not to be paused", k.key)
		k.park()
		m.unprobe(k, m.round.now, probeNotRun)
	case Tripped:
		if k.probe && o.nudged[k] {
			// It had to wait for its group, which then moved on.
			m.unprobe(k, m.round.now, probeNotRun)
			barred = k.from == Retry && m.barred(k)
		}
		require.True(t, barred && !m.isPaused(k), "%q is not to be held back", k.key)
		k.rest(Tripped)
	case Queued:
		if k.state == Queued {
			return
		}
		require.True(t, m.grouping && k.obj.group != "", "%q has no group to wait for", k.key)
		require.True(t, !barred && !m.isPaused(k), "%q is not to wait for its group", k.key)
		k.rest(Queued)
		m.unprobe(k, m.round.now, probeNotRun)
	default:
		if k.probe && o.nudged[k] && e.probedOpening == 0 {
			// It had to wait for its group, which then moved on.
			m.unprobe(k, m.round.now, probeNotRun)
		}
		same(t, k.from, e.state, "%q was not planned", k.key)
		if k.state == Queued && e.state == Ready {
			k.ready()
		} else if k.state == Queued {
			m.wake(k, k.from, k.at)
		}
	}
}

// takeOverGroups takes over which keys have their groups. Those that had one keep it unless
// they may not be run; one that is planned has its own.
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
		require.True(t, !taken || holder == k.key, "%q and %q have group %q", holder, k.key, k.group)
		m.holders[k.group] = k.key
	}
	for k := range before {
		if k.state == Queued {
			require.NotEmpty(t, m.holders[k.group], "%q waits for group %q, which nobody has", k.key, k.group)
		}
	}
}

// takeOverLine takes over the order of a line. Those who stood in it before come first, in
// their order; those who are new may have been taken up in any order that is theirs: by
// when they were due, or by their place in their lane.
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
