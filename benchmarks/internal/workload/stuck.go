// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"slices"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partNone  = "none"
	partStuck = "stuck"
	partSlow  = "slow"
)

const (
	// heldOperations is the number of operations that do not end before the run does, in the parts that have
	// any.
	heldOperations = 64
	// stuckTimeout is the deadline of operations, and untilStuck is long enough for those that ignore it to
	// be stuck.
	stuckTimeout = 10 * time.Millisecond
	untilStuck   = 20 * stuckTimeout
	// crowdLimit is how long operations wait until the most that can run do run.
	crowdLimit = 10 * time.Second
)

func stuck64() Workload {
	return Workload{
		Name: "stuck-64",
		About: "One row inserted, and the next as soon as a watch channel has shown it done, 2000 times, by 128 workers: while " +
			"no other operation runs (..._none), while 64 operations are stuck, long past their deadline of 10 ms " +
			"(..._stuck), and while 64 take long and have an hour (..._slow), each in a process of its own. The peer has " +
			"no workers.",
		Contenders: []string{subject.Statekeel128},
		Runs:       fewRuns,
		Headline:   "p50_growth_stuck",
		Parts:      []string{partNone, partStuck, partSlow},
		Combine:    combineHeld,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{Timeout: stuckTimeout}
			if env.Part == partSlow {
				o.Timeout = farAway
			}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureBesideHeld(ctx, env, sys, env.Inserts(2000))
			})
		},
	}
}

func measureBesideHeld(ctx context.Context, env *Env, sys subject.System, inserts uint64) (Figures, error) {
	workers := uint64(sys.Workers())
	held := uint64(heldOperations)
	if env.Part == partNone {
		held = 0
	}
	rows := held + inserts + workers
	var began, came subject.Counter
	release, together := make(chan struct{}), came.Reached(workers-held)
	tally := tallied(sys.Targets()[0], rows, func(id uint64) error {
		switch {
		case id < held:
			began.Add()
			<-release
		case id >= held+inserts:
			came.Add()
			_, err := within(ctx, together, crowdLimit)
			return err
		}
		return nil
	})
	latencies, used, err := measureBeside(ctx, env, sys, &began, held, inserts)
	if err == nil {
		err = crowd(ctx, sys, held+inserts, workers)
	}
	close(release) // otherwise the contender would not stop
	if err != nil {
		return nil, err
	}
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return nil, err
	}

	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Done: rows})
	c.calls(sys, rows, 0)
	c.each("Update", tally, rows, 1)
	c.equal("operations at a time", tally.inFlight(), workers)
	return Figures{
		less("p50_"+env.Part, "us", micros(quantile(latencies, 0.50))),
		less("p99_"+env.Part, "us", micros(quantile(latencies, 0.99))),
		cost("cpu_"+env.Part, "us/insert", micros(used.cpu), inserts),
	}, c.err()
}

// measureBeside measures inserts while the operations of earlier rows are held.
func measureBeside(ctx context.Context, env *Env, sys subject.System, began *subject.Counter, held, inserts uint64) (latencies []time.Duration, used usage, err error) {
	if held > 0 {
		if err := sys.Insert(0, held); err != nil {
			return nil, usage{}, err
		}
		if err := wait(ctx, began.Reached(held), "the operations to begin that are held"); err != nil {
			return nil, usage{}, err
		}
		if err := pause(ctx, untilStuck); err != nil {
			return nil, usage{}, err
		}
	}
	return measureHealthy(ctx, env, sys, held, inserts, 0)
}

// crowd inserts a row for each worker, and waits until all are done.
func crowd(ctx context.Context, sys subject.System, first, n uint64) error {
	if err := sys.Insert(first, n); err != nil {
		return err
	}
	return awaitRows(ctx, sys, first, n, subject.Done)
}

func combineHeld(parts []Figures) Figures {
	none, stuck, slow := parts[0], parts[1], parts[2]
	p50 := none.Find("p50_none")
	return slices.Concat(Figures{
		less("p50_growth_stuck", "x", stuck.Find("p50_stuck")/p50),
		less("p50_growth_slow", "x", slow.Find("p50_slow")/p50),
	}, none, stuck, slow)
}
