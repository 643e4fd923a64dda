// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// group is a number of objects of which one at a time is worked on. It exists while one
// has it: is worked on, or on its way to that, having waited for its turn.
type group[Obj any] struct {
	name    string
	holder  *entry[Obj]
	waiting queue[Obj]
}

// SetGrouping says whether groups are heeded, which needs a GroupOf. Without it nothing
// is planned side by side that would mind.
func (c *Core[Obj]) SetGrouping(on bool) { c.grouping = on && c.groupOf != nil }

// admit reports whether an entry whose turn has come, and that is in no queue, may be
// run. If not, it is put where it waits: until it is resumed, until its group is free, or
// until its breaker closes.
func (c *Core[Obj]) admit(e *entry[Obj]) bool {
	if c.paused != nil && c.paused(e.obj) {
		c.pause(e)
		return false
	}
	if e.from == Retry && e.mustWaitForBreaker() {
		c.waitForBreaker(e)
		return false
	}
	return !c.grouping || c.takeGroup(e)
}

// takeGroup gives an entry its group. If another has it the entry waits for its turn, and
// false is returned.
func (c *Core[Obj]) takeGroup(e *entry[Obj]) bool {
	if e.group != nil {
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
	c.move(e, Queued)
	// The other may be stuck: another is to probe.
	c.endProbe(c.round.now, e, probeNotRun)
	g.waiting.pushBack(e)
	return false
}

// leaveGroup is called when an entry does not need its group, after all or any more. If it has
// the group, the next that waits for it gets it, and goes on its way again: it keeps the
// group until it has been worked on, so that none of those who come later has it first.
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
	g.waiting.remove(next)
	if next.from == Ready {
		c.pushReadyFront(next)
	} else {
		c.wait(next, next.from, next.dueAt)
	}
}
