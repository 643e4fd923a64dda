// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
)

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

// markProbe marks an operation as a probe if the breaker for all errors is open.
func (c *Core[Obj]) markProbe(op *Operation[Obj]) {
	b := c.global()
	if b == nil {
		return
	}
	if b.probesRunning == 0 {
		b.worstProbe = probeNotRun
	}
	b.probesRunning++
	op.probe, op.Cause = b.opening, CauseProbe
}

// beginProbes makes keys due as probes for the open breakers whose next probes are due.
func (c *Core[Obj]) beginProbes(now time.Duration) {
	if b := c.global(); b != nil {
		if b.probesRunning == 0 && now >= b.probeAt {
			c.probeBackingOff(now, b)
		}
		return
	}
	due := c.probesBegun[:0]
	for {
		b, at, ok := c.probes.Min()
		if !ok || time.Duration(at) > now {
			break
		}
		c.probes.Remove(b)
		due = append(due, b)
	}
	// The heap does not order breakers with the same time.
	slices.SortFunc(due, func(a, b *breaker[Obj]) int {
		return cmp.Or(cmp.Compare(a.probeAt, b.probeAt), compareClass(a, b))
	})
	for _, b := range due {
		c.probeHeld(now, b)
	}
	c.probesBegun = reuse(due)
}

// probeHeld makes some of the keys that a class breaker holds due as probes.
func (c *Core[Obj]) probeHeld(now time.Duration, b *breaker[Obj]) {
	b.worstProbe = probeNotRun
	for b.held.head != nil && b.probesRunning < c.breakerConfig.Probes {
		e := b.held.head
		c.take(e)
		if e.paused {
			e.from = Retry
			c.pause(e)
			continue
		}
		e.probedOpening, e.cause = b.opening, CauseProbe
		b.probesRunning++
		c.wait(e, Retry, now)
	}
	c.scheduleProbes(b)
}

// scheduleProbes puts a class breaker into the heap of probes, or takes it out. A breaker is in the
// heap while it is open, holds keys, and none of its probes is running. Call scheduleProbes
// whenever one of these changes. probeAt must not change while the breaker is in the heap.
func (c *Core[Obj]) scheduleProbes(b *breaker[Obj]) {
	waits := b.open && b.class != allErrors && b.probesRunning == 0 && b.held.size > 0
	switch {
	case waits && b.pos < 0:
		c.probes.Push(b, int64(b.probeAt))
	case !waits && b.pos >= 0:
		c.probes.Remove(b)
	}
}

// probeBackingOff makes keys due that wait for their backoff, if too few other keys can probe for
// the breaker for all errors. Otherwise a recovered target would not be noticed while all backoffs
// are long.
func (c *Core[Obj]) probeBackingOff(now time.Duration, b *breaker[Obj]) {
	if c.round.left == 0 {
		return
	}
	missing := c.breakerConfig.Probes - c.counts[Ready]
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

// probesDue returns when the next probes are due; false if no key waits to probe.
func (c *Core[Obj]) probesDue() (at time.Duration, ok bool) {
	if b := c.global(); b != nil {
		return b.probeAt, b.probesRunning == 0 && b.backingOff.size > 0
	}
	_, first, ok := c.probes.Min()
	return time.Duration(first), ok
}

// endProbes records the result of an operation for each breaker that it probed for.
func (c *Core[Obj]) endProbes(now time.Duration, it *Operation[Obj], came probeResult) {
	if b := c.global(); b != nil {
		c.countProbe(now, b, it.probe, came)
	}
	it.probe = 0
	if it.entry != nil {
		c.endProbe(now, it.entry, came)
	}
}

// GiveUpProbe records that an operation takes far too long, and may never return:
// if it was a probe, the probe has failed.
func (c *Core[Obj]) GiveUpProbe(now time.Duration, it *Operation[Obj]) {
	c.endProbes(now, it, probeFailed)
}

// endProbe records the result of an entry, if it was a probe for its breaker.
func (c *Core[Obj]) endProbe(now time.Duration, e *entry[Obj], came probeResult) {
	if e.probedOpening > 0 {
		c.countProbe(now, e.breaker, e.probedOpening, came)
		e.probedOpening = 0
	}
}

// countProbe records the result of a probe for an opening of a breaker. When the last of the probes
// that ran together has ended, it sets the time of the next.
func (c *Core[Obj]) countProbe(now time.Duration, b *breaker[Obj], opening uint32, came probeResult) {
	if !b.open || opening != b.opening {
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
		b.probeAt = after(now, c.probeInterval(b))
	}
	c.scheduleProbes(b)
}

// probeInterval returns the time until the next probes. It grows with each failed group of probes.
func (c *Core[Obj]) probeInterval(b *breaker[Obj]) time.Duration {
	every := backoff.Exponential{Min: c.breakerConfig.MinInterval, Max: c.breakerConfig.MaxInterval}
	return every.Delay(b.failedProbes + 1)
}
