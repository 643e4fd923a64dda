// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/core"
)

// This file decides which jobs are stuck. Health names these.

const (
	// maxGrace bounds how long an operation may run beyond its deadline before it is stuck.
	maxGrace = time.Second
	// Long is how long a call without a deadline may take before it is stuck.
	Long = time.Minute
	// forEver is a time that a timer never reaches.
	forEver = time.Duration(1) << 61
)

// Patience returns how long a call with a timeout may take before it is stuck: twice the timeout, or
// a second more if that is less. Without a timeout (0), it returns [Long].
func Patience(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return Long
	}
	return min(timeout, forEver) + min(timeout, maxGrace)
}

// NextStuck returns when the next job will be stuck; false if there is none. It includes queued jobs,
// which may begin at once: nothing else would wake the loop for them.
func (p *Pool[Obj]) NextStuck() (at time.Duration, ok bool) {
	if p.inFlight == 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 {
		at, ok = p.now()+p.patience, true
	}
	for _, j := range p.running {
		if !j.stuck && (!ok || j.stuckAt < at) {
			at, ok = j.stuckAt, true
		}
	}
	return at, ok
}

// Overdue marks the jobs that have become stuck, and calls became with the operations of each, with the
// lock held.
func (p *Pool[Obj]) Overdue(became func(ops []core.Operation[Obj])) {
	if p.inFlight == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, j := range p.running {
		if !j.stuck && now >= j.stuckAt {
			j.stuck = true
			p.stuck++
			p.changes++
			became(j.Ops)
		}
	}
}

// EachStuck calls yield with the operations of each stuck job. It is safe from any goroutine; yield is
// called with the lock held.
func (p *Pool[Obj]) EachStuck(yield func(ops []core.Operation[Obj])) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck == 0 {
		return
	}
	for _, j := range p.running {
		if j.stuck {
			yield(j.Ops)
		}
	}
}

// NumStuck returns how many jobs are stuck, and a number that changes whenever that set changes. all:
// every worker that the limits allow is stuck. It is safe from any goroutine.
func (p *Pool[Obj]) NumStuck() (n, changes int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck, p.changes, p.stuck > 0 && p.stuck >= p.limit
}

// StuckCall is a call that takes too long.
type StuckCall[Obj any] struct {
	// Object is the first object of the call, and Deleted whether it is deleted. Others is the number
	// of the other objects. Since is when the job began, by the pool's clock.
	Object  Obj
	Deleted bool
	Others  int
	Since   time.Duration
}

// StuckCalls returns the calls that are stuck, the longest first. It is safe from any goroutine.
func (p *Pool[Obj]) StuckCalls() []StuckCall[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stuck []StuckCall[Obj]
	for _, j := range p.running {
		if j.stuck {
			first := &j.Ops[0]
			stuck = append(stuck, StuckCall[Obj]{first.Obj, first.Deleted, len(j.Ops) - 1, j.started})
		}
	}
	slices.SortFunc(stuck, func(a, b StuckCall[Obj]) int { return cmp.Compare(a.Since, b.Since) })
	return stuck
}
