// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"
)

// pause makes an entry that is in no queue wait to be resumed.
func (c *Core[Obj]) pause(e *entry[Obj]) {
	c.move(e, Paused)
	c.endProbe(c.round.now, e, probeNotRun)
	c.clearUntried(e)
	c.leaveGroup(e)
}

// SetPaused sets which objects must not be worked on: those for which paused returns true; none if
// it is nil. Keys that were paused and are not any more are due at the given time. It walks over
// all entries if any is paused. Until the next call, paused may begin to return true for a key; for
// a key for which it begins to return false, call [Core.Resume].
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

// Resume makes those of the keys due at the given time that were paused, and for which the function
// of [Core.SetPaused] returns false now. It costs nothing for other keys.
func (c *Core[Obj]) Resume(now time.Duration, keys ...string) {
	var resumed []*entry[Obj]
	for _, key := range keys {
		if e := c.entries[key]; e != nil && c.resumable(e) {
			resumed = append(resumed, e)
		}
	}
	c.resumeAll(now, resumed)
}

// resumable reports whether an entry is in state Paused, and its object is not paused any more.
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
