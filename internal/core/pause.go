// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"
)

// pause makes an entry that is in no queue wait to be resumed.
func (c *Core[Obj]) pause(e *entry[Obj]) {
	c.put(e, Paused)
	c.endProbe(c.round.now, e, probeNotRun)
	c.leaveGroup(e)
}

// SetPaused sets which objects must not be worked on: those for which paused returns true; nil
// means none. Keys that were paused and are not any more become ready, or due at the given time.
// SetPaused walks over all entries if any is paused. Until the next call, paused may begin to
// return true for more objects. When it begins to return false for one, call [Core.Resume].
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

// Resume resumes those of the given keys that are in state Paused and for which the function of
// [Core.SetPaused] returns false now. They become ready, or due at the given time. For any other
// key Resume costs only a lookup.
func (c *Core[Obj]) Resume(now time.Duration, keys ...string) {
	var resumed []*entry[Obj]
	for _, key := range keys {
		if e := c.entries[key]; e != nil && c.resumable(e) {
			resumed = append(resumed, e)
		}
	}
	c.resumeAll(now, resumed)
}

// resumable reports whether an entry is in state Paused and its object is not paused any more.
func (c *Core[Obj]) resumable(e *entry[Obj]) bool {
	return e.state == Paused && (c.paused == nil || !c.paused(e.obj))
}

// resumeAll resumes entries in the order of their revisions.
func (c *Core[Obj]) resumeAll(now time.Duration, resumed []*entry[Obj]) {
	slices.SortFunc(resumed, byRevision)
	for _, e := range resumed {
		if e.cause == CauseChange {
			e.cause = CauseResumed
		}
		if e.from == Ready {
			e.lane = Resumption
			c.put(e, Ready)
		} else {
			c.wait(e, e.from, now)
		}
	}
}
