// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// BreakerConfig is the configuration of the breakers.
type BreakerConfig struct {
	// Failures is how many different keys must fail, with no success in between, to open a breaker;
	// at least 1. Probes bounds the operations that may run at a time while the breaker is open; at
	// least 1.
	Failures, Probes int
	// MinInterval and MaxInterval bound the time between probes.
	MinInterval, MaxInterval time.Duration
	// ByClass: each class of errors has a breaker, which holds the keys that failed with an error
	// of the class. Otherwise there is one breaker for all errors, which bounds the operations of a
	// round.
	ByClass bool
}

// breaker holds work back while the target is down. Either there is one for all errors, or there is
// one for each class of errors.
type breaker[Obj any] struct {
	class string
	// failed has the keys that failed since the last success; it is cleared when the breaker opens.
	failed map[string]struct{}
	// behind is the number of entries whose last error counted for this breaker. A breaker for a
	// class is removed when it falls to 0.
	behind int

	open bool
	// opening counts how often the breaker opened: a probe belongs to one opening.
	opening uint32
	// opened is when the breaker opened, probeAt when the next probes are due. probesRunning is the
	// number of running probes, failedProbes the number of groups of probes that failed since it
	// opened.
	opened, probeAt             time.Duration
	probesRunning, failedProbes int
	// worstProbe is the worst result of the probes that run together.
	worstProbe probeResult
	// failure is the text of the last error.
	failure *string
	// held has the entries that wait for the breaker to close; only a breaker for a class has any.
	// backingOff has the entries that wait for their backoff after an error of the class.
	held, backingOff queue[Obj]
	// pos is the position in Core.probes; -1 means not in the heap.
	pos int
}

func (b *breaker[Obj]) HeapPos() int       { return b.pos }
func (b *breaker[Obj]) SetHeapPos(pos int) { b.pos = pos }

// allErrors is the class of the breaker for all errors.
const allErrors = ""

// breakerOf returns the breaker for a class, and creates it if there is none. It returns nil if no
// breaker is configured for the class.
func (c *Core[Obj]) breakerOf(class string) *breaker[Obj] {
	if c.breakerConfig == nil || c.breakerConfig.ByClass == (class == allErrors) {
		return nil
	}
	b := c.breakers[class]
	if b == nil {
		b = &breaker[Obj]{class: class, failed: map[string]struct{}{}, pos: -1}
		c.breakers[class] = b
	}
	return b
}

// setBreaker sets the breaker that the last error of an entry counts for; nil if none. It removes a
// class breaker that no entry refers to any more.
func (c *Core[Obj]) setBreaker(e *entry[Obj], b *breaker[Obj]) {
	old := e.breaker
	if old == b {
		return
	}
	e.breaker = b
	if b != nil {
		b.behind++
	}
	if old == nil {
		return
	}
	if old.behind--; old.behind > 0 || old.class == allErrors {
		return
	}
	delete(c.breakers, old.class)
	if old.open {
		// No key is left that could probe, or that the breaker could hold.
		c.close(old)
	}
}

// global returns the breaker for all errors if it is open; otherwise nil.
func (c *Core[Obj]) global() *breaker[Obj] {
	if len(c.open) > 0 && c.open[0].class == allErrors {
		return c.open[0]
	}
	return nil
}

// BreakerOpen reports whether the breaker for all errors is open.
func (c *Core[Obj]) BreakerOpen() bool { return c.global() != nil }

// Allowance returns how many operations may begin at a time; math.MaxInt if nothing bounds them. If
// it is 0, at is when that changes: the largest time there is while a running probe must end first.
func (c *Core[Obj]) Allowance(now time.Duration) (n int, at time.Duration) {
	b := c.global()
	switch {
	case b == nil:
		return math.MaxInt, 0
	case b.probesRunning > 0:
		return 0, math.MaxInt64
	case now < b.probeAt:
		return 0, b.probeAt
	}
	return c.breakerConfig.Probes, 0
}

// mustWaitForBreaker reports whether an entry must not be retried, since the breaker of its class
// is open and the entry is no probe.
func (e *entry[Obj]) mustWaitForBreaker() bool {
	return e.breaker != nil && e.breaker.open && e.breaker.class != allErrors && e.probedOpening != e.breaker.opening
}

// waitForBreaker makes an entry that is in no queue wait for its breaker to close.
func (c *Core[Obj]) waitForBreaker(e *entry[Obj]) {
	c.put(e, Tripped)
	c.leaveGroup(e)
}

// updateBreakers counts an outcome for the breakers. e is nil if the key has no entry, for example
// after a success.
func (c *Core[Obj]) updateBreakers(now time.Duration, e *entry[Obj], out Outcome[Obj]) {
	if c.breakerConfig == nil {
		return
	}
	switch out.Kind {
	case Done, DoneAgain:
		if !c.breakerConfig.ByClass {
			c.countSuccess(now, c.breakers[allErrors])
		} else if e != nil {
			c.countSuccess(now, e.breaker)
		}
	case Failed:
		if out.Final {
			break
		}
		b := c.breakerOf(c.breakerClass(out))
		c.setBreaker(e, b)
		c.countFailure(now, e, b)
		return
	case FailedForGood:
		if class := c.breakerClass(out); out.GivenUp {
			// The key does not wait, so it does not keep a class breaker alive.
			if class == allErrors {
				c.breakerOf(allErrors)
			}
			c.countFailure(now, e, c.breakers[class])
		}
	}
	if e != nil {
		c.setBreaker(e, nil)
	}
}

// breakerClass returns the class of the breaker that an error counts for.
func (c *Core[Obj]) breakerClass(out Outcome[Obj]) string {
	if c.breakerConfig.ByClass {
		return out.Class
	}
	return allErrors
}

// countFailure counts the failure of a key for a breaker, and opens the breaker if enough keys
// failed.
func (c *Core[Obj]) countFailure(now time.Duration, e *entry[Obj], b *breaker[Obj]) {
	if b == nil {
		return
	}
	old := b.failure
	b.failure = e.text
	if b.open {
		if *old != *b.failure {
			c.openVersion++
		}
		return
	}
	b.failed[e.key] = struct{}{}
	if len(b.failed) < c.breakerConfig.Failures {
		return
	}
	clear(b.failed)
	c.openings++
	b.open, b.opened, b.probesRunning, b.failedProbes = true, now, 0, 0
	b.opening++
	b.probeAt = after(now, c.probeInterval(b))
	at, _ := slices.BinarySearchFunc(c.open, b, compareClass)
	c.open = slices.Insert(c.open, at, b)
	c.openVersion++
	c.version++
}

func compareClass[Obj any](a, b *breaker[Obj]) int { return cmp.Compare(a.class, b.class) }

// countSuccess counts a success for a breaker, and closes the breaker if it is open. For a class
// breaker only successes of keys that failed with its class count.
func (c *Core[Obj]) countSuccess(now time.Duration, b *breaker[Obj]) {
	if b == nil {
		return
	}
	clear(b.failed)
	if b.open {
		c.close(b)
		c.releaseHeld(now, b)
	}
}

// close closes a breaker, without releasing the keys that wait for it.
func (c *Core[Obj]) close(b *breaker[Obj]) {
	b.open, b.probesRunning = false, 0
	at, _ := slices.BinarySearchFunc(c.open, b, compareClass)
	c.open = slices.Delete(c.open, at, at+1)
	c.scheduleProbes(b)
	c.openVersion++
	c.version++
}

// releaseHeld makes the keys due that a breaker held, and those that wait for their backoff after
// an error of its class.
func (c *Core[Obj]) releaseHeld(now time.Duration, b *breaker[Obj]) {
	for _, q := range []*queue[Obj]{&b.held, &b.backingOff} {
		for e := q.head; e != nil; e = q.head {
			at := now
			if e.state == Retry {
				at = min(e.dueAt, now)
			}
			c.take(e)
			// fixed: the next close of the breaker need not release the entry again.
			e.fixed, e.cause = true, CauseBreaker
			c.wait(e, Retry, at)
		}
	}
}

// BreakerOpenings returns how often breakers have opened.
func (c *Core[Obj]) BreakerOpenings() uint64 { return c.openings }

// OpenBreaker describes an open breaker.
type OpenBreaker struct {
	// Class is the class of the errors; empty for the breaker for all errors.
	Class string
	// Since is when the breaker opened, ProbeAt when its next probes are due.
	Since, ProbeAt time.Duration
	// Failure is the text of the last error.
	Failure string
	// Held is the number of keys that wait for the breaker to close; 0 for the breaker for all
	// errors.
	Held int
}

// NumOpenBreakers returns how many breakers are open.
func (c *Core[Obj]) NumOpenBreakers() int { return len(c.open) }

// OpenBreakers describes up to limit of the open breakers, in the order of their classes. O(limit).
func (c *Core[Obj]) OpenBreakers(limit int) []OpenBreaker {
	var open []OpenBreaker
	for _, b := range c.open[:min(limit, len(c.open))] {
		open = append(open, b.describe())
	}
	return open
}

// OpenBreakersVersion returns a number that changes whenever a breaker opens or closes, or the last
// error of an open one changes.
func (c *Core[Obj]) OpenBreakersVersion() uint64 { return c.openVersion }

// describe describes an open breaker.
func (b *breaker[Obj]) describe() OpenBreaker {
	return OpenBreaker{Class: b.class, Since: b.opened, ProbeAt: b.probeAt, Failure: *b.failure, Held: b.held.size}
}
