// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// backlogLead is the part of the window that passes between the load and the first new row.
const backlogLead = 10

// leastBacklog is the smallest load: no contender finishes it before the first new row is inserted.
const leastBacklog = 1000

func behindBacklog() Workload {
	return Workload{
		Name: "behind-backlog",
		About: "20,000 rows, and a target that sleeps a millisecond for each. After half a second, and then for " +
			"5 s, new rows are inserted one after another, 10 ms after the one before was done: how long each takes " +
			"until it is done too, behind the load. Each contender has one worker. A new row that is not done within 10 s is " +
			"given as a lower bound, and is the last.",
		Contenders: both(),
		Runs:       fewRuns,
		Headline:   "max",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureBacklog(ctx, env, sys, max(env.Rows(20_000), leastBacklog))
			})
		},
	}
}

// backlog is a load for a slow target.
type backlog struct {
	rows    uint64
	tally   *tally
	eased   atomic.Bool
	handled atomic.Uint64
}

// newBacklog makes the target slow. Of the rows that it counts, the first n are the load.
func newBacklog(target *subject.Target, n, others uint64) *backlog {
	b := &backlog{rows: n}
	b.tally = tallied(target, n+others, func(id uint64) error {
		if id < n {
			b.handled.Add(1)
		}
		if !b.eased.Load() {
			time.Sleep(slowOperation)
		}
		return nil
	})
	return b
}

// left returns the number of rows of the load that have not reached the target.
func (b *backlog) left() uint64 { return b.rows - b.handled.Load() }

// ease makes the target fast, so that the load is soon finished.
func (b *backlog) ease() { b.eased.Store(true) }

func measureBacklog(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	backlog := newBacklog(sys.Targets()[0], n, uint64(env.Window/freshSpacing)+1)
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := pause(ctx, env.Window/backlogLead); err != nil {
		return nil, err
	}
	var (
		latencies []time.Duration
		gaveUp    bool
		handled   uint64
		least     = n
	)
	used, err := env.measure(func() error {
		before := backlog.left()
		defer func() { handled = before - backlog.left() }()
		for begin := time.Now(); !gaveUp && time.Since(begin) < env.Window; {
			latency, done, err := insertAndAwait(ctx, sys, n+uint64(len(latencies)), env.Cap)
			if err != nil {
				return err
			}
			if done {
				least = min(least, backlog.left())
			}
			latencies, gaveUp = append(latencies, latency), !done
			time.Sleep(freshSpacing)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	backlog.ease()
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return nil, err
	}

	var c checks
	c.atLeast("rows of the load that were left when a new row was done", least, 1)
	c.worked(sys, backlog.tally, n+uint64(len(latencies)), 1)
	return Figures{
		{Metric: "max", Unit: "ms", Better: Less, Value: millis(quantile(latencies, 1)), AtLeast: gaveUp},
		{Metric: "p50", Unit: "ms", Better: Less, Value: millis(quantile(latencies, 0.50)), AtLeast: gaveUp},
		info("new_rows", "objects", float64(len(latencies))),
		info("load", "objects/s", float64(handled)/used.wall.Seconds()),
		info("least_left", "objects", float64(least)),
	}, c.err()
}

// insertAndAwait inserts a row and returns the time until it was done, or the limit if it was not done
// within it.
func insertAndAwait(ctx context.Context, sys subject.System, id uint64, limit time.Duration) (took time.Duration, done bool, err error) {
	begin := time.Now()
	if err := sys.Insert(id, 1); err != nil {
		return 0, false, err
	}
	errLimit := errors.New("the limit is over")
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	switch err := sys.Await(limited, id, subject.Done); {
	case err == nil:
		return time.Since(begin), true, nil
	case errors.Is(err, errLimit):
		return limit, false, nil
	default:
		return 0, false, err
	}
}
