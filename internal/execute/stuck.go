// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
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

// NextStuck returns when the next job may be stuck; false if there is none. It includes queued jobs,
// which may begin at once: nothing else would wake the loop for them.
func (p *Pool[Obj]) NextStuck(now time.Duration) (at time.Duration, ok bool) {
	if p.inFlight == 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at = now + Patience(p.limits.Timeout)
	for _, j := range p.running {
		if j.Place == Running {
			at = min(at, j.stuckAt)
		}
	}
	return at, len(p.queue)+len(p.running) > p.stuck
}

// Overdue marks the jobs that have become stuck, and calls became with each of their operations, with the
// lock held.
func (p *Pool[Obj]) Overdue(now time.Duration, became func(*core.Operation[Obj])) {
	if p.inFlight == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.running {
		if j.Place == Stuck || now < j.stuckAt {
			continue
		}
		j.Place = Stuck
		p.stuck++
		p.changes++
		for i := range j.Ops {
			became(&j.Ops[i])
		}
	}
}

// further prepares another call of a job, which has a deadline of its own. It returns false if the job
// was stuck: then the job ends, so that its outcomes are written, and the rest of it is run again.
func (p *Pool[Obj]) further(j *Job[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.stuckAt = p.cfg.Now() + Patience(p.limits.Timeout)
	return j.Place != Stuck
}

// NumStuck returns how many jobs are stuck, and a number that changes whenever that set changes. all:
// every worker that the limits allow is stuck.
func (p *Pool[Obj]) NumStuck() (n, changes int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck, p.changes, p.stuck > 0 && p.stuck >= p.limits.Workers
}
