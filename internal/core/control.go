// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// pauses is the function of [Core.SetPaused].
type pauses[Obj any] func(Obj) bool

// has reports whether an object must not be worked on.
func (p pauses[Obj]) has(obj Obj) bool { return p != nil && p(obj) }

// SetPaused sets which objects must not be worked on: those for which paused returns true; nil means
// none. Until the next call, paused must return the same for a version of an object. From now on no operation of a paused
// object is made. [Core.Walk] does the rest.
func (c *Core[Obj]) SetPaused(paused func(Obj) bool) {
	if c.paused == nil && paused == nil {
		return
	}
	c.paused, c.pausing = paused, c.keys.walk()
}

// Walk does some of what concerns all keys: what follows from SetPaused, and from RetryAllNow. It visits at most maxWalk
// entries for each. It reports whether there are more. Call it after these, and between two rounds until it returns
// false.
//
// Keys that wait for their turn or for their group and are paused now become Paused, so that their changes count as
// attempted. Keys that were paused and are not any more become ready, or due at the given time.
func (c *Core[Obj]) Walk(now time.Duration) (more bool) {
	if c.pausing.goesOn() {
		c.pauseSome(now)
	}
	c.retrySome(now)
	return c.pausing.goesOn() || len(c.retries) > 0
}

// retrySome makes some entries due, and ends the walk after the last.
func (c *Core[Obj]) retrySome(now time.Duration) {
	if len(c.retries) == 0 {
		return
	}
	for _, e := range c.keys.some(&c.retrying) {
		if c.queues.hurry(e, now, CauseCall) {
			c.retried++
		}
	}
	if c.retrying.goesOn() {
		return
	}
	for _, done := range c.retries[:c.answering] {
		done(c.retried)
	}
	if c.retries = c.retries[c.answering:]; len(c.retries) > 0 {
		c.beginRetries()
	}
}

// beginRetries begins a walk for all calls so far.
func (c *Core[Obj]) beginRetries() {
	c.retrying, c.retried, c.answering = c.keys.walk(), 0, len(c.retries)
}

// pauseSome pauses and resumes some entries.
func (c *Core[Obj]) pauseSome(now time.Duration) {
	entries := c.keys.some(&c.pausing)
	var begun []*entry[Obj]
	for _, e := range entries {
		e.version.paused = c.paused.has(e.version.obj)
		if e.later != nil {
			e.later.paused = c.paused.has(e.later.obj)
			c.Index.reindex(e)
		}
		if e.version.paused && (e.state == Ready || e.state == Queued) {
			c.queues.take(e)
			begun = append(begun, e)
		}
	}
	// None of them waits for its group any more, so a group goes to one that is not paused.
	for _, e := range begun {
		c.queues.pause(e)
	}
	for _, e := range entries {
		if e.state == Paused && !e.version.paused {
			c.queues.resume(e, now)
		}
	}
}

// Release makes a blocked key due at the given time, unless it is due earlier, even if the target is looked at meanwhile. It
// reports whether the key was blocked.
func (c *Core[Obj]) Release(key string, now time.Duration) bool {
	e := c.keys.entries[key]
	return e != nil && e.waitsIn(Blocked) && c.queues.hurry(e, now, CauseReleased)
}

// RetryNow makes a key due at the given time if it waits for a time, waits to be released, or is
// Terminal. It reports whether it did. A key that is due earlier stays so.
func (c *Core[Obj]) RetryNow(key string, now time.Duration) bool {
	e := c.keys.entries[key]
	return e != nil && c.queues.hurry(e, now, CauseCall)
}

// RetryAllNow has [Core.Walk] call RetryNow for all keys, after what earlier calls asked for. Then done is called with
// the number of keys that it made due. Calls that are made during a walk share the next one.
func (c *Core[Obj]) RetryAllNow(done func(n int)) {
	if c.retries = append(c.retries, done); len(c.retries) == 1 {
		c.beginRetries()
	}
}

// EndBackoffs makes the keys due at the given time that wait for their backoff after a failure, since the breaker has
// closed. A key that is due earlier stays so, and a delay that an outcome asked for goes on.
func (c *Core[Obj]) EndBackoffs(now time.Duration) {
	for e := c.queues.backingOff.head; e != nil; e = c.queues.backingOff.head {
		c.queues.take(e)
		e.past.fixed, e.cause, e.home = true, CauseBreaker, nil
		c.queues.wait(e, Retry, min(e.dueAt, now))
	}
}
