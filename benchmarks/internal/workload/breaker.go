// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// afterProbe is long enough for all operations of one probe.
const afterProbe = 50 * time.Millisecond

func breaker() Workload {
	return Workload{
		Name: "breaker",
		About: "A target that is down for 10 s, and 100,000 rows inserted at the beginning of it. The CPU time is taken " +
			"from the end of the first second on. Then the target heals, just after it was tried in vain if it is " +
			"tried within a second, and the time until all rows are done is taken. Backoffs are the default ones.",
		Contenders: []string{subject.StatekeelBreaker, subject.Peer},
		Runs:       fewRuns,
		Headline:   "cpu",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureBreaker(ctx, env, sys, env.Rows(100_000))
			})
		},
	}
}

func measureBreaker(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	target := sys.Targets()[0]
	outage := breakTarget(target, n)
	beginning := min(time.Second, env.Outage/3)
	begin := time.Now()
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := pause(ctx, beginning-time.Since(begin)); err != nil {
		return nil, err
	}

	var attempts uint64
	used, err := env.measure(func() error {
		before := target.Updates.Load()
		err := pause(ctx, env.Outage-time.Since(begin))
		attempts = target.Updates.Load() - before
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := pauseForAttempt(ctx, target, beginning); err != nil {
		return nil, err
	}

	var c checks
	c.equal("rows that are Done while the target is down", sys.Count()[subject.Done], 0)
	healed, err := heal(ctx, sys, outage, n)
	if err != nil {
		return nil, err
	}
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.equal("successful Update calls", outage.healed.Load(), n)
	c.equal("Delete calls", target.Deletes.Load(), 0)
	return Figures{
		less("cpu", "CPU-s/s", used.cpu.Seconds()/used.wall.Seconds()),
		less("heal", "s", healed.Seconds()),
		less("alloc_bytes", "B/s", float64(used.bytes)/used.wall.Seconds()),
		info("attempts", "attempts/s", float64(attempts)/used.wall.Seconds()),
	}, c.err()
}

// pauseForAttempt waits for an attempt, or for the limit. A target that heals right after a probe has the
// longest wait before the next.
func pauseForAttempt(ctx context.Context, target *subject.Target, limit time.Duration) error {
	select {
	case <-target.Updates.Reached(target.Updates.Load() + 1):
		return pause(ctx, afterProbe)
	case <-time.After(limit):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
