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

// Breaker holds work back while the target is down: then only probes run.
type Breaker struct {
	// BreakerConfig is nil if there is no breaker.
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

// probeResult returns the result of an outcome for the breaker that the operation probed for.
func (op *Operation[Obj]) probeResult(out *Outcome[Obj]) probeResult {
	switch {
	case !out.ran(), op.Turn.Cause == CauseAdopted:
		return probeNotRun
	case out.Kind == Failed || out.GivenUp:
		return probeFailed
	}
	return probeInconclusive
}

// Allowance returns how many operations may begin at a time; math.MaxInt if nothing bounds them. If
// it is 0, at is when that changes: the largest time there is while a running probe must end first.
func (b *Breaker) Allowance(now time.Duration) (n int, at time.Duration) {
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

// BreakerState describes the breaker.
type BreakerState struct {
	// Openings counts how often it opened.
	Openings uint64
	// Open reports whether the breaker is open. The fields below are zero while it is closed.
	Open bool
	// Since is when the breaker opened, ProbeAt when its next probes are due.
	Since, ProbeAt time.Duration
	// Failure is the text of the last error.
	Failure string
}

// State describes the breaker.
func (b *Breaker) State() BreakerState {
	s := BreakerState{Openings: uint64(b.openings), Open: b.open}
	if b.open {
		s.Since, s.ProbeAt, s.Failure = b.opened, b.probeAt, *b.failure
	}
	return s
}

// succeed counts a success, and reports whether it closed the breaker.
func (b *Breaker) succeed() (closed bool) {
	clear(b.failed)
	closed = b.open
	b.open, b.probesRunning = false, 0
	return closed
}

// fail counts the failure of a key, and opens the breaker if enough keys failed.
func (b *Breaker) fail(now time.Duration, key string, text *string) {
	b.failure = text
	if b.open {
		return
	}
	b.failed[key] = struct{}{}
	if len(b.failed) < b.Failures {
		return
	}
	clear(b.failed)
	b.open, b.opened, b.failedProbes = true, now, 0
	b.openings++
	b.probeAt = after(now, b.interval())
}

// interval returns the time until the next probes. It grows with each failed group of probes.
func (b *Breaker) interval() time.Duration {
	return backoff.Exponential{Min: b.MinInterval, Max: b.MaxInterval}.Delay(b.failedProbes + 1)
}

// beginProbe counts an operation as a probe if the breaker is open. It returns the opening that the operation probes
// for; 0 if it is no probe.
func (b *Breaker) beginProbe() (opening uint32) {
	if !b.open {
		return 0
	}
	if b.probesRunning == 0 {
		b.worstProbe = probeNotRun
	}
	b.probesRunning++
	return b.openings
}

// endProbe records the result of an operation that probes for an opening, and sets that to 0. When the last of the
// probes that ran together has ended, it sets the time of the next.
func (b *Breaker) endProbe(now time.Duration, opening *uint32, came probeResult) {
	is := b.open && *opening == b.openings
	*opening = 0
	if !is {
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
	c.Breaker.endProbe(now, &op.Turn.probe, probeFailed)
}

// countForBreaker counts an outcome for the breaker. If that closes, the keys are due that wait for their backoff
// after an error that counted. e is nil if the key has no entry, for example after a success. What was adopted does not
// count: the target was not called.
func (c *Core[Obj]) countForBreaker(now time.Duration, e *entry[Obj], cause Cause, out *Outcome[Obj]) {
	if c.Breaker.BreakerConfig == nil || cause == CauseAdopted {
		return
	}
	failed := out.Kind == Failed && !out.Final
	if e != nil {
		e.past.counted = failed
	}
	switch {
	case failed || out.Kind == FailedForGood && out.GivenUp:
		c.Breaker.fail(now, e.key, e.past.text)
	case out.Succeeded() && c.Breaker.succeed():
		for e := c.queues.backingOff.head; e != nil; e = c.queues.backingOff.head {
			c.queues.take(e)
			// fixed: the next close of the breaker need not release the entry again.
			e.past.fixed, e.cause = true, CauseBreaker
			c.queues.wait(e, Retry, min(e.dueAt, now))
		}
	}
}

// beginProbes makes keys due that wait for their backoff, if the next probes are due and too few other keys can
// probe. Otherwise a recovered target would not be noticed while all backoffs are long.
func (c *Core[Obj]) beginProbes(now time.Duration) {
	if !c.Breaker.open || c.round.left == 0 {
		return
	}
	missing, _ := c.Breaker.Allowance(now)
	missing -= c.Index.figures.States[Ready]
	missing -= c.queues.due.CountUpTo(int64(now), missing)
	for e := c.queues.backingOff.head; e != nil && missing > 0; {
		next := e.next
		if e.dueAt > now {
			c.queues.take(e)
			if e.version.paused {
				e.from = Retry
				c.queues.pause(e)
			} else {
				c.queues.wait(e, Retry, now)
				missing--
			}
		}
		e = next
	}
}
