// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	// gather is the least time between the starts of two rounds under load, so that
	// objects which are written one by one gather into rounds.
	gather = time.Millisecond
	// Load is streak rounds in a row of at least crowd objects, with no pause of
	// gather between them. A program that waits for each object before it writes
	// the next never makes for that, and is never kept waiting.
	streak = 4
	crowd  = 8
	// maxSlack bounds how long a retry that is due waits for others to come due,
	// so that a crowd of failing objects does not make for a round each.
	maxSlack = 5 * time.Millisecond
	// refused is how long to wait before a limiter that refused is asked again.
	refused = 100 * time.Millisecond
)

// pace says when the next pass may begin.
type pace struct {
	// token: the limiter has admitted a round that has not been run yet.
	token bool
	// crowds counts the rounds in a row that make for load.
	crowds int
	// more: the last round was full, or main has not seen all there is, so that there is more
	// to do at once.
	more bool
	// most is how many single operations are planned for one turn; 0 means no bound.
	most int
	// commitTook is how long the last commit of a turn took, and waited for the table.
	commitTook time.Duration
	// roundAt is when the last round began, waitedAt when the last did that had
	// items which had waited. hasWaited says that there was one.
	roundAt, waitedAt time.Duration
	hasWaited         bool
}

// admit blocks until the next pass may begin, and returns false if ctx ends before. The
// limiter is the one that is set. While it has no token, what others ask for is taken in by poll
// whenever woken is signalled.
func (p *pace) admit(ctx context.Context, limiter func() *rate.Limiter, woken signal, poll func() bool, now func() time.Duration) bool {
	for l := limiter(); l != nil; l = limiter() {
		if p.token || p.reserve(ctx, l, woken) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		poll()
	}
	if p.crowds < streak || p.more {
		return true
	}
	return sleep(ctx, p.roundAt+gather-now())
}

// reserve waits for a token of a limiter. It gives up when ctx ends or it is woken, and
// when the limiter allows nothing at all, which it may have been told to for a while.
func (p *pace) reserve(ctx context.Context, limiter *rate.Limiter, woken signal) bool {
	reservation := limiter.Reserve()
	wait := reservation.Delay()
	if wait == 0 {
		p.token = true
		return true
	}
	allowed := wait != rate.InfDuration
	if !allowed {
		wait = refused
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.token = allowed
	case <-ctx.Done():
	case <-woken:
	}
	if !p.token {
		reservation.Cancel()
	}
	return p.token
}

// idle notes that the loop had nothing to do between two times.
func (p *pace) idle(from, to time.Duration) {
	if to-from >= gather {
		p.crowds = 0
	}
}

// round notes that a round began at a time, and whether there is more to do at once. With
// workers, moving is how much is in flight, but for what is slow or stuck, or has landed: that
// makes for load, however little of it comes at a time.
func (p *pace) round(began time.Duration, r *Round, more bool, moving int) {
	items := r.Changes + r.Waited
	p.token = false
	p.roundAt = began
	p.more = more && moving == 0
	p.crowds++
	if max(items, moving)-r.Refreshes < crowd {
		// Refreshes come in batches that wait for each other: to hold them up gathers
		// nothing, and keeps fresh changes waiting.
		p.crowds = 0
	}
	if r.Waited > 0 {
		p.waitedAt, p.hasWaited = began, true
	}
}

// inTurn returns how many single operations to plan, of at most size.
func (p *pace) inTurn(size int) int {
	if p.most == 0 {
		return size
	}
	return min(p.most, size)
}

// turn returns how long the next turn may take.
func (p *pace) turn() time.Duration { return min(max(turn, p.commitTook), maxTurn) }

// ran notes how many single operations were run in a turn and how long that took, and how
// many were left. What does not fit goes back to the cursor, so that the next turn gets as
// many as this one ran, and some more if all were: twice as many if that took little time.
func (p *pace) ran(ran, left int, took time.Duration) {
	switch {
	case left > 0:
		p.most = max(1, ran)
	case p.most == 0 || ran < p.most:
	case took < p.turn()/2:
		p.most *= 2
	default:
		p.most += 1 + p.most/8
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
