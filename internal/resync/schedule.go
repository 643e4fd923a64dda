// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"errors"
	"math"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// schedule is when the target is looked at.
type schedule struct {
	// initialized is closed when the table is initialised; nil before the first Step, and once ready is set.
	initialized <-chan struct{}
	ready       bool
	// gate is the revision up to which everything must have been attempted before; 0 if that is so.
	gate statedb.Revision
	// requested: a look was requested. at is when the next one is due otherwise.
	requested bool
	at        time.Duration
	drain     drain
	// failures counts the failures in a row, failure is the text of the last one; empty if the last look succeeded.
	// awaits: it was a resync that awaits approval.
	failures int
	failure  string
	awaits   bool
}

// isReady reports whether the table is initialised, and what it had then was attempted.
func (s *schedule) isReady() bool { return s.ready && s.gate == 0 }

// beginsAt returns when the next look is due, or what it waits for may have changed; never if none is planned.
func (s *schedule) beginsAt() time.Duration {
	if s.drain.until > 0 {
		return s.drain.until
	}
	return s.at
}

func (s *schedule) isDue(now time.Duration) bool { return s.requested || s.at <= now }

// IsJudged reports whether a prune or resync with this error has judged all that the target has, but objects without a
// usable key.
func IsJudged(err error) bool {
	return err == nil || errors.Is(err, ErrLeftAlone) && !errors.Is(err, ErrAwaits)
}

// plan records the end of a look with its error, and plans the next one. After a failure the time until that is the
// backoff of objects, or the interval if that is shorter. Objects that are left alone are no failure: another listing would
// have them, too.
func (s *schedule) plan(now time.Duration, err error, set Settings) (failures int, after time.Duration) {
	s.failure, s.awaits, after = "", errors.Is(err, ErrAwaits), set.Interval
	if err != nil {
		s.failure = err.Error()
	}
	if IsJudged(err) {
		s.failures = 0
	} else {
		s.failures++
		wait := backoff.Exponential{Min: set.MinBackoff, Max: set.MaxBackoff}.Delay(s.failures)
		if after == 0 || wait < after {
			after = wait
		}
	}
	s.planAfter(now, after)
	return s.failures, after
}

// planAfter sets the time of the next look; none if d is not positive.
func (s *schedule) planAfter(now, d time.Duration) {
	s.at = never
	if d > 0 {
		s.at = after(now, d)
	}
}

// after returns the time that is d after t. The sum does not overflow.
func after(t, d time.Duration) time.Duration { return t + min(d, never-t) }

// later returns the time that is d after t; never if that is not after now.
func later(t, d, now time.Duration) time.Duration {
	if at := after(t, d); at > now {
		return at
	}
	return never
}

const (
	// minHold is how long work is held back the first time. If operations are still running then,
	// work goes on for holdShare times as long. Then it is held back again, for twice as long as
	// before.
	minHold   = 100 * time.Millisecond
	holdShare = 9
	// hangPause is the pause before work may be held back again if an operation is stuck.
	hangPause = time.Minute
)

// drain waits for running operations to end, so that a prune can begin. The zero value does not
// wait.
type drain struct {
	// holding: work is held back. hold is for how long it was the last time.
	holding bool
	hold    time.Duration
	// until is when that changes; 0 for now.
	until time.Duration
}

// wait returns true and ends the wait if no operation is running (idle). Otherwise it decides
// whether to hold work back. It does not while an operation is stuck (hangs), which may never end.
func (d *drain) wait(now time.Duration, idle, hangs bool) bool {
	switch {
	case idle:
		*d = drain{}
		return true
	case hangs:
		*d = drain{until: now + hangPause}
	case now < d.until:
	case d.holding:
		d.holding, d.until = false, now+holdShare*d.hold
	default:
		d.hold = max(minHold, 2*d.hold)
		d.holding, d.until = true, now+d.hold
	}
	return false
}
