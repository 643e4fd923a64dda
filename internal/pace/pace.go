// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pace

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	// Gather is the least time between the starts of two rounds under load, so that objects which
	// are written one by one gather into rounds.
	Gather = time.Millisecond
	// Refused is how long to wait before a limiter that allows nothing is asked again.
	Refused = 100 * time.Millisecond
	// Turn is how long single operations go on with one round, so that slow ones do not keep the
	// statuses of the finished ones, and what came in meanwhile, waiting for the rest of the round.
	Turn = 5 * time.Millisecond

	// maxTurn is how long they go on at most if others hold the table for as long when the statuses
	// are written: then these would wait anyway.
	maxTurn = 20 * time.Millisecond
	// Load is streak rounds in a row of at least crowd objects, with no pause of Gather between
	// them. A program that waits for each object before it writes the next never makes for that,
	// and is never kept waiting.
	streak = 4
	crowd  = 8
	// maxSlack bounds how long a retry that is due waits for others to come due, so that a crowd of
	// failing objects does not make for a round each.
	maxSlack = 5 * time.Millisecond
)

// Pace is what is known of the last rounds. The zero value is that of a loop that has run none. It
// belongs to one goroutine. Times are those of one clock, from any zero.
type Pace struct {
	// token: the limiter has admitted a round that has not been run yet.
	token bool
	// crowds counts the rounds in a row that make for load.
	crowds int
	// more: the last round was full, or there is more to look at, so that there is more to do at
	// once.
	more bool
	// most is how many single operations are planned for one turn; 0 means no bound.
	most int
	// committed is how long the last commit of a turn took, and waited for the table.
	committed time.Duration
	// roundAt is when the last round began, waitedAt when the last did that had items which had
	// waited. hasWaited says that there was one.
	roundAt, waitedAt time.Duration
	hasWaited         bool
}

// Round is what a pace has to know of a round.
type Round struct {
	// Began is when it began.
	Began time.Duration
	// Items is how many objects it had, Refreshes how many of them were refreshed, Waited how many
	// had waited: for a retry, a release or a requeue.
	Items, Refreshes, Waited int
	// More: there is more to do at once.
	More bool
	// Moving is how much workers have in flight, but for what is slow or stuck, and how much of
	// theirs has landed: that makes for load, however little of it comes at a time.
	Moving int
}

// Admit blocks until the next pass may begin, and returns false if ctx ends before. limiter returns
// the limiter of rounds that is set, nil for none. While it has no token, Admit calls poll whenever
// woken is signalled.
func (p *Pace) Admit(ctx context.Context, limiter func() *rate.Limiter, woken <-chan struct{}, poll func() bool, now func() time.Duration) bool {
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
	return Sleep(ctx, p.roundAt+Gather-now())
}

// reserve waits for a token of a limiter. It gives up when ctx ends or it is woken, and when the
// limiter allows nothing at all, which it may have been told to for a while.
func (p *Pace) reserve(ctx context.Context, limiter *rate.Limiter, woken <-chan struct{}) bool {
	reservation := limiter.Reserve()
	wait := reservation.Delay()
	if wait == 0 {
		p.token = true
		return true
	}
	allowed := wait != rate.InfDuration
	if !allowed {
		wait = Refused
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

// Idle notes that the loop had nothing to do between two times.
func (p *Pace) Idle(from, to time.Duration) {
	if to-from >= Gather {
		p.crowds = 0
	}
}

// Ran notes that a round was run.
func (p *Pace) Ran(r Round) {
	p.token = false
	p.roundAt = r.Began
	p.more = r.More && r.Moving == 0
	p.crowds++
	if max(r.Items, r.Moving)-r.Refreshes < crowd {
		// Refreshes come in batches that wait for each other: to hold them up gathers
		// nothing, and keeps fresh changes waiting.
		p.crowds = 0
	}
	if r.Waited > 0 {
		p.waitedAt, p.hasWaited = r.Began, true
	}
}

// TurnSize returns how many single operations to plan for a turn, of at most size.
func (p *Pace) TurnSize(size int) int {
	if p.most == 0 {
		return size
	}
	return min(p.most, size)
}

// TurnLength returns how long the next turn may take.
func (p *Pace) TurnLength() time.Duration { return min(max(Turn, p.committed), maxTurn) }

// RanTurn notes how many single operations were run in a turn and how long that took, and how many
// were left. What does not fit goes back to the cursor, so that the next turn gets as many as this
// one ran, and some more if all were: twice as many if that took little time.
func (p *Pace) RanTurn(ran, left int, took time.Duration) {
	switch {
	case left > 0:
		p.most = max(1, ran)
	case p.most == 0 || ran < p.most:
	case took < p.TurnLength()/2:
		p.most *= 2
	default:
		p.most += 1 + p.most/8
	}
}

// Committed notes how long the commit of a turn took, and waited for the table.
func (p *Pace) Committed(took time.Duration) { p.committed = took }

// DueAt returns when to wake up for a key that is due at a time.
func (p *Pace) DueAt(due, minBackoff time.Duration) time.Duration {
	if !p.hasWaited {
		return due
	}
	return max(due, p.waitedAt+min(minBackoff/20, maxSlack))
}

// Sleep blocks for d, and returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
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
