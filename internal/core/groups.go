// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "cmp"

// groupSet has the groups that an entry holds.
type groupSet[Obj any] struct {
	// of is [Config.GroupOf]. on reports whether groups are respected.
	of     func(Obj) string
	on     bool
	byName map[string]*group[Obj]
}

// group serialises its objects: at most one is worked on at a time. It exists while an entry holds
// it.
type group[Obj any] struct {
	name   string
	holder *entry[Obj]
	// refreshes has the entries that wait to be refreshed, waiting the others. refreshed: it was a refresh's turn last.
	waiting, refreshes queue[Obj]
	refreshed          bool
}

// line returns the queue in which an entry waits for the group.
func (g *group[Obj]) line(e *entry[Obj]) *queue[Obj] {
	if e.version.lane == Refresh {
		return &g.refreshes
	}
	return &g.waiting
}

// next returns the entry whose turn it is; nil if none waits. Refreshes and other work take turns: a change does not wait
// until a large group is refreshed.
func (g *group[Obj]) next() *entry[Obj] {
	g.refreshed = !g.refreshed
	if g.refreshed {
		return cmp.Or(g.refreshes.head, g.waiting.head)
	}
	return cmp.Or(g.waiting.head, g.refreshes.head)
}

// name returns the group of an object; empty if none.
func (g *groupSet[Obj]) name(obj Obj) string {
	if !g.on {
		return ""
	}
	return g.of(obj)
}

// enter makes an entry the holder of its group. It returns false if the entry has to wait in the queue of the group.
func (g *groupSet[Obj]) enter(e *entry[Obj]) bool {
	if e.group != nil {
		return true
	}
	name := g.name(e.version.obj)
	if name == "" {
		return true
	}
	in := g.byName[name]
	if in == nil {
		in = &group[Obj]{name: name, holder: e}
		g.byName[name] = in
	}
	e.group = in
	return in.holder == e
}

// leave is called when an entry no longer needs its group. If it held the group, leave returns the next holder,
// which is still in the queue of the group; nil if there is none.
func (g *groupSet[Obj]) leave(e *entry[Obj]) (next *entry[Obj]) {
	in := e.group
	e.group = nil
	if in == nil || in.holder != e {
		return nil
	}
	next = in.next()
	in.holder = next
	if next == nil {
		delete(g.byName, in.name)
	}
	return next
}
