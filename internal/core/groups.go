// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// group serialises its objects: at most one is worked on at a time. It exists while an entry holds
// it.
type group[Obj any] struct {
	name    string
	holder  *entry[Obj]
	waiting queue[Obj]
}

// SetGrouping sets whether groups are respected; they never are without a GroupOf. They need not be
// while operations run one at a time.
func (c *Core[Obj]) SetGrouping(on bool) { c.grouping = on && c.groupOf != nil }

// takeGroup makes an entry, which is in no queue, the holder of its group, if it has one. If another entry holds the
// group, the entry is queued and takeGroup returns false.
func (c *Core[Obj]) takeGroup(e *entry[Obj]) bool {
	if !c.grouping || e.group != nil {
		return true
	}
	name := c.groupOf(e.obj)
	if name == "" {
		return true
	}
	g := c.groups[name]
	if g == nil {
		g = &group[Obj]{name: name}
		c.groups[name] = g
	}
	e.group = g
	if g.holder == nil {
		g.holder = e
		return true
	}
	c.put(e, Queued)
	return false
}

// leaveGroup is called when an entry no longer needs its group. If it held the group, the first
// waiting entry becomes the holder and goes back to where it came from. That entry keeps the group
// until it has been worked on, so that no later entry overtakes it.
func (c *Core[Obj]) leaveGroup(e *entry[Obj]) {
	g := e.group
	e.group = nil
	if g == nil || g.holder != e {
		return
	}
	next := g.waiting.head
	g.holder = next
	if next == nil {
		delete(c.groups, g.name)
		return
	}
	c.take(next)
	c.putBack(next)
}
