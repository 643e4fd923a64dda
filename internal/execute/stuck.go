// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Which jobs are stuck, which of these were left behind, and which health names.

const (
	// maxGrace bounds how long beyond its deadline an operation has before it is stuck.
	maxGrace = time.Second
	// Long is how long a call may take before it is named: without a deadline it is stuck
	// then.
	Long = time.Minute
)

// Patience returns how long a call with a timeout may take before it is stuck; without one (0),
// before it is named.
func Patience(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return Long
	}
	return min(timeout, forEver) + min(timeout, maxGrace)
}

// OnlyLeft reports whether nothing is in flight but what was left behind.
func (p *Pool[Obj, L]) OnlyLeft() bool {
	if p.inFlight == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == p.left
}

// Hangs reports whether a job is stuck that was not left behind.
func (p *Pool[Obj, L]) Hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.running, func(j *Job[Obj, L]) bool { return j.stuck && !j.left })
}

// NextStuck returns when the next job will be stuck, or named. One that has not
// begun may be by then: nothing else would wake the loop for it.
func (p *Pool[Obj, L]) NextStuck() (at time.Duration, ok bool) {
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
	for _, j := range p.running {
		if !j.stuck {
			sooner(j.stuckAt)
		} else if !j.named {
			sooner(p.namedAt(j))
		}
	}
	if len(p.queue) > 0 {
		sooner(now + p.patience)
	}
	return at, ok
}

// namedAt returns when a job is named that was not left behind.
func (p *Pool[Obj, L]) namedAt(j *Job[Obj, L]) time.Duration {
	return j.started + max(Long, p.patience)
}

// Overdue calls became with the load of each job that has become stuck since the last call of it, and
// with the lock, so that it may change what [Load.Objects] reads. Jobs that ignore a deadline are
// left behind, as many as may be, and let others run in their place.
func (p *Pool[Obj, L]) Overdue(ctx context.Context, became func(load *L)) {
	if p.inFlight == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, j := range p.running {
		if now < j.stuckAt {
			continue
		}
		if !j.stuck {
			j.stuck = true
			became(&j.Load)
		}
		if !j.left && j.deadline && p.left < p.maxLeft {
			j.left = true
			p.left++
			p.everLeft++
			if len(p.queue) > 0 && p.idle == 0 {
				p.hire(ctx)
			}
		}
		if !j.named && (j.left || now >= p.namedAt(j)) {
			j.named = true
			p.named++
			p.changes++
		}
	}
}

// StuckCall is a call that takes long.
type StuckCall[Obj any] struct {
	// Object is the first object of the call, and Deleted whether that is deleted; Others is how
	// many other objects it is for.
	Object  Obj
	Deleted bool
	Others  int
	Since   time.Duration
	// LeftBehind: it ignores its deadline, and another may run in its place.
	LeftBehind bool
}

// Named returns the calls that health names, the longest first.
func (p *Pool[Obj, L]) Named() []StuckCall[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stuck []StuckCall[Obj]
	for _, j := range p.running {
		if j.named {
			obj, deleted, others := j.first()
			stuck = append(stuck, StuckCall[Obj]{obj, deleted, others, j.started, j.left})
		}
	}
	slices.SortFunc(stuck, func(a, b StuckCall[Obj]) int { return cmp.Compare(a.Since, b.Since) })
	return stuck
}

// NumNamed returns how many jobs health names, and a number that changes when those do.
func (p *Pool[Obj, L]) NumNamed() (n, changes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named, p.changes
}

// NumLeft returns how many of those that were left behind are still running.
func (p *Pool[Obj, L]) NumLeft() int {
	if p.inFlight == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}
