// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"
)

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

// pause makes an entry that is in no queue wait to be resumed.
func (c *Core[Obj]) pause(e *entry[Obj]) {
	c.move(e, Paused)
	c.endProbe(c.round.now, e, probeNotRun)
	c.clearUntried(e)
	c.leaveGroup(e)
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

// SetPaused makes those objects not be worked on of which paused returns true; none, if it
// is nil. Those that waited for an earlier call and are not paused any more are due at
// the given time. It walks over all entries if any is paused. Until the next call paused may come
// to return true for a key, and false if [Core.Resume] is told of that.
func (c *Core[Obj]) SetPaused(now time.Duration, paused func(Obj) bool) {
	c.paused = paused
	if c.counts[Paused] == 0 {
		return
	}
	var resumed []*entry[Obj]
	for _, e := range c.entries {
		if c.resumable(e) {
			resumed = append(resumed, e)
		}
	}
	c.resumeAll(now, resumed)
}

// Resume is told of keys that are not paused any more, by the function of [Core.SetPaused]: they
// are due at the given time. It costs nothing for other keys.
func (c *Core[Obj]) Resume(now time.Duration, keys ...string) {
	var resumed []*entry[Obj]
	for _, key := range keys {
		if e := c.entries[key]; e != nil && c.resumable(e) {
			resumed = append(resumed, e)
		}
	}
	c.resumeAll(now, resumed)
}

// resumable reports whether an entry waits to be resumed, and its object is not paused.
func (c *Core[Obj]) resumable(e *entry[Obj]) bool {
	return e.state == Paused && (c.paused == nil || !c.paused(e.obj))
}

func (c *Core[Obj]) resumeAll(now time.Duration, resumed []*entry[Obj]) {
	slices.SortFunc(resumed, byRevision)
	for _, e := range resumed {
		if e.cause == CauseChange {
			e.cause = CauseResumed
		}
		if e.from == Ready {
			c.pushResumed(e)
		} else {
			c.wait(e, e.from, now)
		}
	}
}

// laterChange is a change of a key that was observed while an operation on the key ran.
type laterChange[Obj any] struct {
	item Item[Obj]
	// since is the revision of the first version that asked for the same.
	since uint64
	// settled: it asks for nothing; unset: the object is left alone.
	settled, unset bool
}

// keepLater keeps the latest change of a key that is in flight. A key that had been reconciled,
// or tried, owes that one now, from an older one on that is observed later.
func (c *Core[Obj]) keepLater(e *entry[Obj], n laterChange[Obj]) {
	old, noted := c.later[e]
	n.since = n.item.since
	switch {
	case !noted:
	case n.item.Revision <= old.item.Revision:
		if n.settled || old.settled || n.since >= old.since {
			return
		}
		old.since = n.since
		n = old
	case !n.settled && !old.settled && c.same(&old.item, &n.item):
		n.since = min(n.since, old.since)
	}
	c.later[e] = n
	if !n.settled {
		c.lowerSince(e, n.since)
	}
	since := int64(n.since)
	if e.since == 0 {
		if e.unreconciledPos >= 0 {
			c.unreconciled.Remove(unreconciledEntry[Obj]{e})
		}
		if !n.settled {
			c.unreconciled.Push(unreconciledEntry[Obj]{e}, since)
			c.newestSince = max(c.newestSince, n.since)
		}
	}
	if e.since == 0 || e.tried {
		c.clearUntried(e)
		if !n.settled {
			c.untried.Push(untriedEntry[Obj]{e}, since)
		}
	}
}

// same reports whether a change asks for the same as an older one.
func (c *Core[Obj]) same(older, newer *Item[Obj]) bool {
	return c.samePending != nil && !older.Deleted && !newer.Deleted && c.samePending(older.Obj, newer.Obj)
}
