// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
)

// BreakerConfig is the configuration of the breaker.
type BreakerConfig struct {
	// Failures is how many different keys must fail, with no success in between, to open the breaker;
	// at least 1. Probes bounds the operations that may run at a time while it is open; at least 1.
	Failures, Probes int
	// MinInterval and MaxInterval bound the time between probes.
	MinInterval, MaxInterval time.Duration
}

// breaker holds work back while the target is down: then only probes run. Its methods do nothing without a
// configuration.
type breaker[Obj any] struct {
	*BreakerConfig
	// failed has the keys that failed since the last success; it is cleared when the breaker opens.
	failed map[string]struct{}
	open   bool
	// openings counts how often the breaker opened: a probe belongs to one opening.
	openings uint32
	// opened is when the breaker opened, probeAt when the next probes are due. probesRunning is the
	// number of running probes, failedProbes the number of groups of probes that failed since it
	// opened.
	opened, probeAt             time.Duration
	probesRunning, failedProbes int
	// worstProbe is the worst result of the probes that run together.
	worstProbe probeResult
	// failure is the text of the last error.
	failure *string
	// backingOff has the entries that wait for their backoff after an error that counted.
	backingOff queue[Obj]
}

// probeResult is the result of a probe: an operation that finds out whether the target works again.
// Of several results the largest counts.
type probeResult uint8

const (
	// probeNotRun: the operation was not run.
	probeNotRun probeResult = iota
	// probeInconclusive: the operation ran, but its outcome does not show whether the target works.
	probeInconclusive
	// probeFailed: the operation failed.
	probeFailed
)

// probeResultOf returns the result of an outcome for the breaker that its operation probed for.
func probeResultOf[Obj any](out Outcome[Obj]) probeResult {
	switch {
	case !out.ran():
		return probeNotRun
	case out.Kind == Failed || out.GivenUp:
		return probeFailed
	}
	return probeInconclusive
}

// BreakerOpen reports whether the breaker is open.
func (c *Core[Obj]) BreakerOpen() bool { return c.breaker.open }

// Allowance returns how many operations may begin at a time; math.MaxInt if nothing bounds them. If
// it is 0, at is when that changes: the largest time there is while a running probe must end first.
func (c *Core[Obj]) Allowance(now time.Duration) (n int, at time.Duration) {
	b := &c.breaker
	switch {
	case !b.open:
		return math.MaxInt, 0
	case b.probesRunning > 0:
		return 0, math.MaxInt64
	case now < b.probeAt:
		return 0, b.probeAt
	}
	return b.Probes, 0
}

// updateBreaker counts an outcome for the breaker. e is nil if the key has no entry, for example after a
// success.
func (c *Core[Obj]) updateBreaker(now time.Duration, e *entry[Obj], out Outcome[Obj]) {
	b := &c.breaker
	if b.BreakerConfig == nil {
		return
	}
	failed := out.Kind == Failed && !out.Final
	if e != nil {
		e.counted = failed
	}
	switch {
	case failed || out.Kind == FailedForGood && out.GivenUp:
		c.countFailure(now, e)
	case out.Succeeded():
		clear(b.failed)
		if b.open {
			b.open, b.probesRunning = false, 0
			c.version++
			c.endBackoffs(now)
		}
	}
}

// countFailure counts the failure of a key, and opens the breaker if enough keys failed.
func (c *Core[Obj]) countFailure(now time.Duration, e *entry[Obj]) {
	b := &c.breaker
	b.failure = e.text
	if b.open {
		return
	}
	b.failed[e.key] = struct{}{}
	if len(b.failed) < b.Failures {
		return
	}
	clear(b.failed)
	b.open, b.opened, b.probesRunning, b.failedProbes = true, now, 0, 0
	b.openings++
	b.probeAt = after(now, b.interval())
	c.version++
}

// endBackoffs makes the keys due that wait for their backoff after an error that counted.
func (c *Core[Obj]) endBackoffs(now time.Duration) {
	for e := c.breaker.backingOff.head; e != nil; e = c.breaker.backingOff.head {
		c.take(e)
		// fixed: the next close of the breaker need not release the entry again.
		e.fixed, e.cause = true, CauseBreaker
		c.wait(e, Retry, min(e.dueAt, now))
	}
}

// markProbe marks an operation as a probe if the breaker is open.
func (c *Core[Obj]) markProbe(op *Operation[Obj]) {
	b := &c.breaker
	if !b.open {
		return
	}
	if b.probesRunning == 0 {
		b.worstProbe = probeNotRun
	}
	b.probesRunning++
	op.probe, op.Cause = b.openings, CauseProbe
}

// beginProbes makes keys due that wait for their backoff, if the next probes are due and too few other keys can
// probe. Otherwise a recovered target would not be noticed while all backoffs are long.
func (c *Core[Obj]) beginProbes(now time.Duration) {
	b := &c.breaker
	if !b.open || b.probesRunning > 0 || now < b.probeAt || c.round.left == 0 {
		return
	}
	missing := b.Probes - c.counts[Ready]
	missing -= c.due.CountUpTo(int64(now), missing)
	for e := b.backingOff.head; e != nil && missing > 0; {
		next := e.next
		if e.dueAt > now {
			c.take(e)
			if e.paused {
				e.from = Retry
				c.pause(e)
			} else {
				c.wait(e, Retry, now)
				missing--
			}
		}
		e = next
	}
}

// endProbe records the result of an operation if it was a probe. When the last of the probes that ran together
// has ended, it sets the time of the next.
func (c *Core[Obj]) endProbe(now time.Duration, op *Operation[Obj], came probeResult) {
	b, opening := &c.breaker, op.probe
	op.probe = 0
	if !b.open || opening != b.openings {
		return
	}
	b.probesRunning--
	b.worstProbe = max(b.worstProbe, came)
	switch {
	case b.probesRunning > 0:
	case b.worstProbe == probeNotRun:
		// None of them ran, so others may probe at once.
		b.probeAt = now
	default:
		if b.worstProbe == probeFailed {
			b.failedProbes++
		}
		b.probeAt = after(now, b.interval())
	}
}

// GiveUpProbe records that an operation takes far too long, and may never return: if it was a probe, the probe has
// failed.
func (c *Core[Obj]) GiveUpProbe(now time.Duration, op *Operation[Obj]) {
	c.endProbe(now, op, probeFailed)
}

// interval returns the time until the next probes. It grows with each failed group of probes.
func (b *breaker[Obj]) interval() time.Duration {
	return backoff.Exponential{Min: b.MinInterval, Max: b.MaxInterval}.Delay(b.failedProbes + 1)
}

// BreakerState describes the breaker.
type BreakerState struct {
	// Open reports whether the breaker is open. The other fields are zero while it is closed.
	Open bool
	// Since is when the breaker opened, ProbeAt when its next probes are due.
	Since, ProbeAt time.Duration
	// Failure is the text of the last error.
	Failure string
}

// Breaker describes the breaker.
func (c *Core[Obj]) Breaker() BreakerState {
	b := &c.breaker
	if !b.open {
		return BreakerState{}
	}
	return BreakerState{Open: true, Since: b.opened, ProbeAt: b.probeAt, Failure: *b.failure}
}

// BreakerOpenings returns how often the breaker has opened.
func (c *Core[Obj]) BreakerOpenings() uint64 { return uint64(c.breaker.openings) }
