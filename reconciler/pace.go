// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	// gather is the least time between the starts of two rounds while the loop is
	// busy. Objects that are written one by one gather into rounds meanwhile.
	gather = time.Millisecond
	// maxSlack bounds how long a retry that is due waits for others to come due,
	// so that a crowd of failing objects does not make for a round each.
	maxSlack = 5 * time.Millisecond
)

// pace says when the next pass may begin.
type pace struct {
	// token: the limiter has admitted a round that has not been run yet.
	token bool
	// idleAt is when the loop last had nothing to do.
	idleAt time.Duration
	// roundAt is when the last round began, waitedAt when the last did that had
	// items which had waited. hasWaited says that there was one.
	roundAt, waitedAt time.Duration
	hasWaited         bool
	// gathers: the last pass was a round that left nothing behind, so that it is
	// worth waiting for more to come together.
	gathers bool
}

// admit blocks until the next pass may begin, and returns false if ctx ends before.
func (p *pace) admit(ctx context.Context, limiter *rate.Limiter, now func() time.Duration) bool {
	if limiter != nil {
		if !p.token {
			p.token = limiter.Wait(ctx) == nil
		}
		return p.token
	}
	if !p.gathers || now()-p.idleAt < gather {
		return true
	}
	p.gathers = false
	return sleep(ctx, p.roundAt+gather-now())
}

// idle notes that the loop had nothing to do until now.
func (p *pace) idle(now time.Duration) { p.idleAt = now }

// round notes that a round began at a time.
func (p *pace) round(began time.Duration, r *Round, size int) {
	p.token = false
	p.roundAt = began
	p.gathers = r.Changes+r.Waited < size
	if r.Waited > 0 {
		p.waitedAt, p.hasWaited = began, true
	}
}

// dueAt returns when to wake up for a key that is due at a time.
func (p *pace) dueAt(due, minBackoff time.Duration) time.Duration {
	if !p.hasWaited {
		return due
	}
	return max(due, p.waitedAt+min(minBackoff/20, maxSlack))
}

// sleep blocks for d, and returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
