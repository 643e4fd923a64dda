// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"slices"
	"time"
)

// isPaused reports whether an object must not be worked on.
func (c *Core[Obj]) isPaused(obj Obj) bool { return c.paused != nil && c.paused(obj) }

// pause makes an entry that is in no queue wait to be resumed.
func (c *Core[Obj]) pause(e *entry[Obj]) {
	c.put(e, Paused)
	c.leaveGroup(e)
}

// SetPaused sets which objects must not be worked on: those for which paused returns true; nil means
// none. Until the next call, paused must return the same for a version of an object. Keys that wait for
// their turn or for their group and are paused now become Paused, so that their changes count as attempted.
// Keys that were paused and are not any more become ready, or due at the given time. SetPaused walks over
// all entries, in the order of their revisions.
func (c *Core[Obj]) SetPaused(now time.Duration, paused func(Obj) bool) {
	if c.paused == nil && paused == nil {
		return
	}
	c.paused = paused
	entries := slices.SortedFunc(maps.Values(c.entries), byRevision)
	var begun []*entry[Obj]
	for _, e := range entries {
		e.paused = c.isPaused(e.obj)
		if e.runs != nil {
			e.runs.paused = c.isPaused(e.runs.obj)
		}
		switch {
		case e.paused && (e.state == Ready || e.state == Queued):
			c.take(e)
			begun = append(begun, e)
		case e.state == InFlight:
			c.reindex(e)
		}
	}
	// None of them waits for its group any more, so a group goes to one that is not paused.
	for _, e := range begun {
		c.pause(e)
	}
	for _, e := range entries {
		if e.state == Paused && !e.paused {
			c.resume(now, e)
		}
	}
}

// resume makes an entry ready that was paused, or due at the given time.
func (c *Core[Obj]) resume(now time.Duration, e *entry[Obj]) {
	if e.cause == CauseChange {
		e.cause = CauseResumed
	}
	c.take(e)
	if e.from == Ready {
		e.lane = Resumption
		c.put(e, Ready)
	} else {
		c.wait(e, e.from, now)
	}
}
