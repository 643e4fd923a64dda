// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/pace"
)

// never is a time that does not come by itself.
const never = time.Duration(math.MaxInt64)

// limits returns what of the settings the core is to know.
func (s *Settings) limits() core.Limits {
	return core.Limits{
		MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff, Jitter: s.Jitter, RoundSize: s.RoundSize,
	}
}

// reconfigure takes in the settings that were set last.
func (l *Loop[Obj]) reconfigure(now time.Duration) {
	was := l.set
	l.setFrom = l.settings.Load()
	l.set = l.setFrom.Settings
	l.core.SetLimits(l.set.limits())
	l.pool.Configure(execute.Limits{Workers: l.set.Concurrency, MaxStuck: l.set.maxStuck(), Timeout: l.set.Timeout})
	if was.PruneInterval != l.set.PruneInterval {
		l.pruner.Reschedule(now, l.set.PruneInterval)
	}
}

// capacity returns how many operations may be planned, and, if that is none, when some
// may be, as far as only time has to pass for it: else something else wakes the loop.
// looks: the table is to be looked at, also if only permits are missing, so that a loop which has
// nothing to do knows that it needs none.
func (l *Loop[Obj]) capacity(now time.Duration) (size int, at time.Duration, looks bool) {
	if l.pause.whole || l.pruner.Draining() {
		return 0, never, false
	}
	size, at = l.core.Allowance(now)
	if size == 0 {
		return 0, at, false
	}
	size = min(size, l.set.RoundSize)
	// The landed ones are those of this pass.
	flying := l.pool.IsBusy() || len(l.finished) > 0
	l.pooled = l.set.workers() || flying
	l.core.SetGrouping(l.pooled || l.batches())
	if flying && !l.set.workers() && !l.pool.OnlyLeft() {
		// Workers are not wanted any more: what they do has to end first, but for what was
		// left behind. Beside that there is one worker.
		return 0, never, false
	}
	if l.pooled {
		free := l.pool.Free()
		if free == 0 {
			return 0, never, false
		}
		if !l.batches() {
			size = min(size, free)
		}
	} else if !l.batches() {
		size = min(size, l.pace.TurnSize(l.set.RoundSize))
	}
	permits, at := l.permits(now)
	return min(size, permits), at, true
}

// permits returns how many operations are within the limit on their rate, and, if that is
// none, when the next is.
func (l *Loop[Obj]) permits(now time.Duration) (n int, at time.Duration) {
	limiter := l.set.OperationLimiter
	if limiter == nil || limiter.Limit() == rate.Inf {
		return math.MaxInt, 0
	}
	tokens := limiter.Tokens()
	if tokens >= 1 {
		return int(min(tokens, math.MaxInt32)), 0
	}
	if limiter.Limit() <= 0 {
		return 0, now + pace.Refused
	}
	wait := inSeconds((1 - tokens) / float64(limiter.Limit()))
	// A limiter may be told to allow more meanwhile, or have to be shared.
	return 0, now + min(max(wait, time.Microsecond), pace.Refused)
}

// inSeconds returns so many seconds, and never if a time.Duration does not hold them.
func inSeconds(s float64) time.Duration {
	if ns := s * float64(time.Second); ns < float64(never) {
		return time.Duration(ns)
	}
	return never
}

// admitOne reports whether one more operation is within the limit on their rate.
func (l *Loop[Obj]) admitOne() bool {
	return l.set.OperationLimiter == nil || l.set.OperationLimiter.Allow()
}
