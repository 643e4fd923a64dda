// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pace

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	// Gather is the shortest time between the starts of two rounds under load, so that objects that
	// are written one by one gather into rounds.
	Gather = time.Millisecond
	// Refused is the wait before a limiter that allows nothing is asked again.
	Refused = 100 * time.Millisecond
	// Turn bounds the time of the single operations of a round. Otherwise slow ones would keep the
	// statuses of finished ones, and new changes, waiting for the rest of the round.
	Turn = 5 * time.Millisecond

	// maxTurn bounds a turn while the commits of statuses take longer than Turn because other
	// writers hold the table: then the statuses would wait anyway.
	maxTurn = 20 * time.Millisecond
	// Load means streak rounds in a row of at least crowd objects each, without a pause of Gather
	// between them. A program that waits for each object before it writes the next never causes
	// load, and is never delayed.
	streak = 4
	crowd  = 8
	// maxSlack bounds how long a due retry waits for others to come due, so that many failing
	// objects do not cause a round each.
	maxSlack = 5 * time.Millisecond
)

// Pace decides when the next pass may begin, from what it has recorded about the last rounds. The
// zero value is a Pace that has recorded none. It belongs to one goroutine. Times are those of one
// clock, with any zero.
type Pace struct {
	// token: the limiter has admitted a round that has not been run yet.
	token bool
	// crowds counts the rounds in a row that count as load.
	crowds int
	// more: the last round was full, or more changes are waiting to be read. The next pass starts
	// at once.
	more bool
	// committed is how long the last commit of a turn took, including the wait for the table.
	committed time.Duration
	// roundAt is when the last round began. waitedAt is when the last round with items that had
	// waited began; valid if hasWaited.
	roundAt, waitedAt time.Duration
	hasWaited         bool
}

// Round describes a round to a Pace.
type Round struct {
	// Began is when the round began.
	Began time.Duration
	// Items is the number of objects of the round, Refreshes the number of those that were
	// refreshed, Waited the number of those that had waited for a retry, a release or a requeue.
	Items, Refreshes, Waited int
	// More reports whether the next pass may begin at once: the round was full, so waiting would gather
	// nothing, or the cursors have more to read.
	More bool
	// Moving is the number of jobs that workers have in flight, except slow and stuck ones, plus
	// the number of objects that workers finished for this round. It counts as load however few
	// objects come at a time.
	Moving int
}

// Admit blocks until the next pass may begin, and returns false if ctx ends first. limiter returns
// the current limiter of rounds; nil for none. While the limiter has no token, Admit calls poll
// each time woken is signalled, and after each Refused if the limiter allows nothing.
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

// reserve waits for a token of a limiter. It gives up when ctx ends or woken is signalled. If the
// limiter allows nothing at all, it gives up after Refused: the limiter may be changed meanwhile.
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

// Idle records that the loop had nothing to do between two times.
func (p *Pace) Idle(from, to time.Duration) {
	if to-from >= Gather {
		p.crowds = 0
	}
}

// Ran records that a round was run.
func (p *Pace) Ran(r Round) {
	p.token = false
	p.roundAt = r.Began
	p.more = r.More
	p.crowds++
	if max(r.Items, r.Moving)-r.Refreshes < crowd {
		// Refreshes come as many at a time as their lane takes: delaying them gathers nothing, and would delay
		// fresh changes.
		p.crowds = 0
	}
	if r.Waited > 0 {
		p.waitedAt, p.hasWaited = r.Began, true
	}
}

// TurnLength returns how long the next turn may take.
func (p *Pace) TurnLength() time.Duration { return min(max(Turn, p.committed), maxTurn) }

// Committed records how long the commit of a turn took, including the wait for the table.
func (p *Pace) Committed(took time.Duration) { p.committed = took }

// DueAt returns when to wake up for a key that is due at a time. After a round of keys that had
// waited, the next such round is delayed a little, see maxSlack.
func (p *Pace) DueAt(due, minBackoff time.Duration) time.Duration {
	if !p.hasWaited {
		return due
	}
	return max(due, p.waitedAt+min(minBackoff/20, maxSlack))
}

// Sleep blocks for d, and returns false if ctx ends first.
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
