// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
)

// probeResult is the result of an attempt to find out whether the target is up again. A larger one
// counts for more.
type probeResult uint8

const (
	// probeNotRun: the operation was not run.
	probeNotRun probeResult = iota
	// probeInconclusive: the operation ran, and tells nothing about the target.
	probeInconclusive
	// probeFailed: the operation failed.
	probeFailed
)

// markProbes marks the items of a plan as probes if the breaker for all errors is open.
func (c *Core[Obj]) markProbes(items []Item[Obj]) {
	b := c.global()
	if b == nil {
		return
	}
	b.probesRunning, b.worstProbe = b.probesRunning+len(items), probeNotRun
	for i := range items {
		items[i].probe = b.opening
	}
}

// beginProbes makes keys due that probe for the open breakers whose time has come.
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
	// The heap has no order among breakers with the same time.
	slices.SortFunc(due, func(a, b *breaker[Obj]) int {
		return cmp.Or(cmp.Compare(a.probeAt, b.probeAt), compareClass(a, b))
	})
	for _, b := range due {
		c.probeHeld(now, b)
	}
	c.probesBegun = reuse(due)
}

// probeHeld makes some of the keys due that a breaker holds.
func (c *Core[Obj]) probeHeld(now time.Duration, b *breaker[Obj]) {
	b.worstProbe = probeNotRun
	for b.held.head != nil && b.probesRunning < c.breakerConfig.Probes {
		e := b.held.head
		b.held.remove(e)
		if c.paused != nil && c.paused(e.obj) {
			e.from = Retry
			c.pause(e)
			continue
		}
		e.probedOpening, e.cause = b.opening, CauseProbe
		b.probesRunning++
		c.wait(e, Retry, now)
	}
}

// scheduleProbes puts a breaker for a class into the heap, or takes it out, by whether its probes
// wait for their time: it is open, holds keys, and no probe runs. It is called whenever one of
// these changes. The time does not change while the breaker is in the heap.
func (c *Core[Obj]) scheduleProbes(b *breaker[Obj]) {
	waits := b.open && b.class != allErrors && b.probesRunning == 0 && b.held.size > 0
	switch {
	case waits && b.pos < 0:
		c.probes.Push(b, int64(b.probeAt))
	case !waits && b.pos >= 0:
		c.probes.Remove(b)
	}
}

// probeBackingOff makes keys due that wait for their backoff, if there are too few others to probe
// with: otherwise a target that is up again would not be noticed while all backoffs are long.
func (c *Core[Obj]) probeBackingOff(now time.Duration, b *breaker[Obj]) {
	if c.round.size == 0 {
		return
	}
	missing := c.breakerConfig.Probes - c.readyKeys()
	missing -= c.due.CountUpTo(int64(now), missing)
	for e := b.backingOff.head; e != nil && missing > 0; {
		next := e.next
		if e.dueAt > now {
			c.leaveQueue(e)
			if c.paused != nil && c.paused(e.obj) {
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

// probesDue returns when the next probes are due, if any key waits for that.
func (c *Core[Obj]) probesDue() (at time.Duration, ok bool) {
	if b := c.global(); b != nil {
		return b.probeAt, b.probesRunning == 0 && b.backingOff.size > 0
	}
	_, first, ok := c.probes.Min()
	return time.Duration(first), ok
}

// endProbes notes the result of an item, for each breaker that it was a probe for.
func (c *Core[Obj]) endProbes(now time.Duration, it *Item[Obj], came probeResult) {
	if b := c.global(); b != nil {
		c.countProbe(now, b, it.probe, came)
	}
	it.probe = 0
	if it.entry != nil {
		c.endProbe(now, it.entry, came)
	}
}

// endProbe notes the result of an entry, if it was a probe for its breaker.
func (c *Core[Obj]) endProbe(now time.Duration, e *entry[Obj], came probeResult) {
	if e.probedOpening > 0 {
		c.countProbe(now, e.breaker, e.probedOpening, came)
		e.probedOpening = 0
	}
}

// countProbe notes the result of a probe for an opening of a breaker. After the last of the probes
// that ran together it sets the time of the next.
func (c *Core[Obj]) countProbe(now time.Duration, b *breaker[Obj], opening uint32, came probeResult) {
	if !b.open || opening != b.opening {
		return
	}
	b.probesRunning--
	b.worstProbe = max(b.worstProbe, came)
	switch {
	case b.probesRunning > 0:
	case b.worstProbe == probeNotRun:
		// None of them ran: others may probe at once.
		b.probeAt = now
	default:
		if b.worstProbe == probeFailed {
			b.failedProbes++
		}
		b.probeAt = after(now, c.probeInterval(b))
	}
	c.scheduleProbes(b)
}

// probeInterval returns the time to the next probes.
func (c *Core[Obj]) probeInterval(b *breaker[Obj]) time.Duration {
	every := backoff.Exponential{Min: c.breakerConfig.MinInterval, Max: c.breakerConfig.MaxInterval}
	return every.Delay(b.failedProbes + 1)
}
