// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
)

// probeResult is what came of an attempt to see whether the target is up again.
type probeResult uint8

const (
	// probeNotRun: it was not run, after all.
	probeNotRun probeResult = iota
	// probeInconclusive: it was run, and says nothing of the target.
	probeInconclusive
	probeFailed
)

// markProbes notes which items of a plan pass the open breaker for everything.
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

// beginProbes makes some of the keys due that wait behind open breakers, of those whose time
// to probe has come.
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
	// The heap has no order among those that are due at the same time.
	slices.SortFunc(due, func(a, b *breaker[Obj]) int {
		return cmp.Or(cmp.Compare(a.probeAt, b.probeAt), compareClass(a, b))
	})
	for _, b := range due {
		c.probeHeld(now, b)
	}
	c.probesBegun = reuse(due)
}

// probeHeld makes some of the keys due that wait behind a breaker.
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

// scheduleProbes puts a breaker for a class into the heap, or takes it out, by whether its
// probes wait for their time: it is open, holds keys, and none of them is under way as a
// probe. It is called whenever one of these changes; the time does not while it is there.
func (c *Core[Obj]) scheduleProbes(b *breaker[Obj]) {
	waits := b.open && b.class != allErrors && b.probesRunning == 0 && b.held.size > 0
	switch {
	case waits && b.pos < 0:
		c.probes.Push(b, int64(b.probeAt))
	case !waits && b.pos >= 0:
		c.probes.Remove(b)
	}
}

// probeBackingOff makes some of the keys due that wait for their backoff, if there is too
// little else to probe with: nobody is to wait long for a target that is up again because
// everything that failed waits long.
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

// probesDue returns when the next probes are due that keys wait for, if any are.
func (c *Core[Obj]) probesDue() (at time.Duration, ok bool) {
	if b := c.global(); b != nil {
		return b.probeAt, b.probesRunning == 0 && b.backingOff.size > 0
	}
	_, first, ok := c.probes.Min()
	return time.Duration(first), ok
}

// endProbes notes that an item is not under way any more, for the breaker that it had
// passed, if any.
func (c *Core[Obj]) endProbes(now time.Duration, it *Item[Obj], came probeResult) {
	if b := c.global(); b != nil {
		c.countProbe(now, b, it.probe, came)
	}
	it.probe = 0
	if it.entry != nil {
		c.endProbe(now, it.entry, came)
	}
}

// endProbe notes that an entry is not under way any more to probe for its breaker.
func (c *Core[Obj]) endProbe(now time.Duration, e *entry[Obj], came probeResult) {
	if e.probedOpening > 0 {
		c.countProbe(now, e.breaker, e.probedOpening, came)
		e.probedOpening = 0
	}
}

func (c *Core[Obj]) countProbe(now time.Duration, b *breaker[Obj], opening uint32, came probeResult) {
	if !b.open || opening != b.opening {
		return
	}
	b.probesRunning--
	b.worstProbe = max(b.worstProbe, came)
	switch {
	case b.probesRunning > 0:
	case b.worstProbe == probeNotRun:
		// Others may be run in their place: else a target that is up again would not be
		// noticed while all that is tried first has changed meanwhile.
		b.probeAt = now
	default:
		if b.worstProbe == probeFailed {
			b.failedProbes++
		}
		b.probeAt = after(now, c.probeInterval(b))
	}
	c.scheduleProbes(b)
}

func (c *Core[Obj]) probeInterval(b *breaker[Obj]) time.Duration {
	every := backoff.Exponential{Min: c.breakerConfig.MinInterval, Max: c.breakerConfig.MaxInterval}
	return every.Delay(b.failedProbes + 1)
}
