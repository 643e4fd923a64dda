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
func (r *runner[Obj]) reconfigure(now time.Duration) {
	was := r.set
	r.setFrom = r.settings.Load()
	r.set = r.setFrom.Settings
	r.core.SetLimits(r.set.limits())
	r.workers.Configure(execute.Limits{Workers: r.set.Concurrency, MaxStuck: r.set.maxStuck(), Timeout: r.set.Timeout})
	if was.PruneInterval != r.set.PruneInterval {
		r.pruner.Reschedule(now, r.set.PruneInterval)
	}
}

// budget is what a round may do.
type budget struct {
	// size is how many operations may be planned. If it is 0, again is when some may be, as far as
	// only time has to pass for it: else it is never, and something else wakes the loop.
	size  int
	again time.Duration
	// looks: the table is looked at, also if only permits are missing, so that a loop which has
	// nothing to do knows that it needs none.
	looks bool
	// workers: operations run on workers, or did until these have finished.
	workers bool
}

// budgetAt returns what a round may do that begins now.
func (r *runner[Obj]) budgetAt(now time.Duration) budget {
	// The finished ones are those of this pass.
	busy := r.workers.IsBusy() || len(r.workers.finished) > 0
	b := budget{again: never, workers: r.set.workers() || busy}
	if r.pause.whole || r.pruner.Draining() {
		return b
	}
	size, probeAt := r.core.Allowance(now)
	if size == 0 {
		b.again = probeAt
		return b
	}
	size = min(size, r.set.RoundSize)
	if busy && !r.set.workers() && !r.workers.OnlyLeft() {
		// Workers are not wanted any more: what they do has to end first, but for what was
		// left behind. Beside that there is one worker.
		return b
	}
	switch batched := r.execute.IsBatched(); {
	case b.workers:
		free := r.workers.Free()
		if free == 0 {
			return b
		}
		if !batched {
			size = min(size, free)
		}
	case !batched:
		size = min(size, r.pace.TurnSize(r.set.RoundSize))
	}
	permits, again := r.permits(now)
	b.size, b.again, b.looks = min(size, permits), again, true
	return b
}

// permits returns how many operations are within the limit on their rate, and, if that is
// none, when the next is.
func (r *runner[Obj]) permits(now time.Duration) (n int, at time.Duration) {
	limiter := r.set.OperationLimiter
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
func (r *runner[Obj]) admitOne() bool {
	return r.set.OperationLimiter == nil || r.set.OperationLimiter.Allow()
}
