// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// This file decides which jobs are stuck, which of these are left behind, and which ones health names.

const (
	// maxGrace bounds how long an operation may run beyond its deadline before it is stuck.
	maxGrace = time.Second
	// Long is how long a call may take before health names it. A call without a deadline is stuck
	// then.
	Long = time.Minute
)

// Patience returns how long a call with a timeout may take before it is stuck: twice the timeout, or
// a second more if that is less. Without a timeout (0), it returns [Long].
func Patience(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return Long
	}
	return min(timeout, forEver) + min(timeout, maxGrace)
}

// OnlyLeft reports whether all jobs in flight are left behind; true if none is in flight.
func (p *Pool[Obj, L]) OnlyLeft() bool {
	if p.inFlight == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == p.left
}

// LeftBehind calls yield with each object of the jobs that were left behind and are still running. It
// is safe from any goroutine; yield is called with the lock held.
func (p *Pool[Obj, L]) LeftBehind(yield func(obj Obj)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.running {
		if j.left {
			j.Load.Objects(func(obj Obj, _ bool) bool {
				yield(obj)
				return true
			})
		}
	}
}

// Hangs reports whether a job is stuck and not left behind.
func (p *Pool[Obj, L]) Hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.running, func(j *Job[Obj, L]) bool { return j.stuck && !j.left })
}

// NextStuck returns when the next job will be stuck, or named by health; false if there is none. It
// includes queued jobs, which may begin at once: nothing else would wake the loop for them.
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

// namedAt returns when health names a job that is not left behind.
func (p *Pool[Obj, L]) namedAt(j *Job[Obj, L]) time.Duration {
	return j.started + max(Long, p.patience)
}

// Overdue marks jobs that have become stuck, and calls became with the load of each. became is called
// with the lock held, so that it may change what [Load.Objects] reads. Overdue leaves stuck jobs
// behind if their call has a deadline, up to MaxStuck: other jobs then run in their place.
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

// StuckCall is a call that takes too long.
type StuckCall[Obj any] struct {
	// Object is the first object of the call, and Deleted whether it is deleted. Others is the number
	// of the other objects. Since is when the job began, by the pool's clock.
	Object  Obj
	Deleted bool
	Others  int
	Since   time.Duration
	// LeftBehind reports whether the call ignores its deadline and another job may run in its place.
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

// NumNamed returns how many jobs health names, and a number that changes whenever that set changes.
func (p *Pool[Obj, L]) NumNamed() (n, changes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named, p.changes
}

// NumLeft returns how many jobs that were left behind are still running.
func (p *Pool[Obj, L]) NumLeft() int {
	if p.inFlight == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}
