// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// What of the pool is about flights that are stuck: which they are, which were left behind, and
// which health names.

const (
	// maxGrace bounds how long beyond its deadline an operation has before it is stuck.
	maxGrace = time.Second
	// long is how long a call may take before it is named: without a deadline it is stuck
	// then.
	long = time.Minute
)

// onlyLeft reports whether nothing is in flight but what was left behind.
func (p *pool[Obj]) onlyLeft() bool {
	if p.inFlight == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == p.left
}

// hangs reports whether a flight is stuck that was not left behind.
func (p *pool[Obj]) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.running, func(f *flight[Obj]) bool { return f.stuck && !f.left })
}

// nextStuck returns when the next flight will be stuck, or named. One that has not
// begun may be by then: nothing else would wake the loop for it.
func (p *pool[Obj]) nextStuck() (at time.Duration, ok bool) {
	if p.inFlight == 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, f := range p.running {
		if !f.stuck {
			sooner(f.stuckAt)
		} else if !f.named {
			sooner(p.namedAt(f))
		}
	}
	if len(p.queue) > 0 {
		sooner(now + p.patience)
	}
	return at, ok
}

// namedAt returns when a flight is named that was not left behind.
func (p *pool[Obj]) namedAt(f *flight[Obj]) time.Duration { return f.started + max(long, p.patience) }

// overdue returns the flights that have become stuck since the last call of it. Those that
// ignore a deadline are left behind, as many as may be, and let others run in their place.
func (p *pool[Obj]) overdue(ctx context.Context) (stuck []*flight[Obj]) {
	if p.inFlight == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, f := range p.running {
		if now < f.stuckAt {
			continue
		}
		if !f.stuck {
			f.stuck = true
			stuck = append(stuck, f)
		}
		if !f.left && f.deadline && p.left < p.maxLeft {
			f.left = true
			p.left++
			p.everLeft++
			if len(p.queue) > 0 && p.idle == 0 {
				p.hire(ctx)
			}
		}
		if !f.named && (f.left || now >= p.namedAt(f)) {
			f.named = true
			p.named++
			p.changes++
		}
	}
	return stuck
}

// stuckFlight is an operation that is stuck.
type stuckFlight[Obj any] struct {
	object  Obj
	deleted bool
	// more is how many other objects its call is for.
	more  int
	since time.Duration
	// left: it ignores its deadline, and was left behind.
	left bool
}

// stuckFlights returns the first object of each flight that health names, the longest first.
func (p *pool[Obj]) stuckFlights() []stuckFlight[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stuck []stuckFlight[Obj]
	for _, f := range p.running {
		if f.named {
			stuck = append(stuck, stuckFlight[Obj]{f.items[0].Obj, f.items[0].Deleted, len(f.items) - 1, f.started, f.left})
		}
	}
	slices.SortFunc(stuck, func(a, b stuckFlight[Obj]) int { return cmp.Compare(a.since, b.since) })
	return stuck
}

// numNamed returns how many flights health names, and a number that changes when those do.
func (p *pool[Obj]) numNamed() (n, changes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named, p.changes
}

// numLeft returns how many of those that were left behind are still running.
func (p *pool[Obj]) numLeft() int {
	if p.inFlight == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}
