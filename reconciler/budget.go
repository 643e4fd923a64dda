// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/pace"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// limits returns the settings of the core.
func (s *Settings) limits() core.Limits {
	return core.Limits{
		MinBackoff: s.MinBackoff, MaxBackoff: s.MaxBackoff, Jitter: s.Jitter, RoundSize: s.RoundSize,
	}
}

// reconfigure applies the latest settings.
func (r *runner[Obj]) reconfigure(ctx context.Context, now time.Duration) {
	was := r.set
	r.set = r.shared.settings.Load()
	if r.set.BreakerFailures == 0 {
		r.closeBreaker(now, true)
	}
	r.core.SetLimits(r.set.limits())
	r.workers.Configure(ctx, r.set.Concurrency, r.set.Timeout)
	if was.PruneInterval != r.set.PruneInterval || was.ResyncInterval != r.set.ResyncInterval {
		r.resync.Reschedule(now)
	}
}

// budget is what a round may do.
type budget struct {
	// size is how many operations may begin. If it is 0, again is the time at which some may be.
	// It is never if not time but another event wakes the loop.
	size  int
	again time.Duration
	// reads: the table is read. It is read even if only permits are missing, so that a loop without
	// work detects that it needs none.
	reads bool
	// workers: operations run on workers, or workers still run operations from before a change of
	// settings.
	workers bool
}

// budgetAt returns the budget of a round that begins now.
func (r *runner[Obj]) budgetAt(now time.Duration) budget {
	// When a pass begins, its operations are those that workers have finished.
	busy := r.workers.IsBusy() || len(r.ops) > 0
	b := budget{again: never, workers: r.set.workers() || busy}
	if r.paused.whole || r.resync.Holds() {
		return b
	}
	size := r.set.RoundSize
	if r.breaker.Open {
		// One operation at a time, when the pause is over.
		size = 1
		if now < r.breaker.ProbeAt {
			b.again = r.breaker.ProbeAt
			return b
		}
		if r.workers.AwaitsSome() {
			return b
		}
	}
	if busy && !r.set.workers() {
		// Workers are no longer wanted. Their operations have to end first.
		return b
	}
	if b.workers {
		free := r.workers.Room()
		if free == 0 {
			return b
		}
		if !r.shared.execution.config.IsBatched() {
			size = min(size, free)
		}
	}
	permits, again := permits(r.set.OperationLimiter, now)
	b.size, b.again, b.reads = min(size, permits), again, true
	return b
}

// permits returns how many operations a limiter allows now, and if that is none, when it allows the next. nil allows
// all.
func permits(limiter *rate.Limiter, now time.Duration) (n int, at time.Duration) {
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
	// The limit may be raised meanwhile, or another reconciler may share it.
	return 0, now + min(max(wait, time.Microsecond), pace.Refused)
}

// inSeconds converts seconds; the result is never if a time.Duration cannot hold them.
func inSeconds(s float64) time.Duration {
	if ns := s * float64(time.Second); ns < float64(never) {
		return time.Duration(ns)
	}
	return never
}

// admitOne reports whether OperationLimiter allows one more operation, and takes a token if so.
func (s *Settings) admitOne() bool {
	return s.OperationLimiter == nil || s.OperationLimiter.Allow()
}
