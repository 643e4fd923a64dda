// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partEarlier = "earlier"
	partSame    = "same"
)

// headStart is the time between the insert of the slow row and that of the others, in the part in which it
// is inserted first.
const headStart = 10 * time.Millisecond

// slowRow is the number of the slow row: the first one.
const slowRow = 0

func headOfLine() Workload {
	return Workload{
		Name: "head-of-line",
		About: "A row whose operation takes 2 s, and 1000 whose operation does nothing: the time of these from their " +
			"insert until they are done, when the slow row was inserted 10 ms earlier (..._earlier), and when it is " +
			"the first of the same transaction (..._same). Statekeel has two workers, the peer does one operation at " +
			"a time.",
		Contenders: []string{subject.Statekeel2, subject.Peer},
		Runs:       fewRuns,
		Headline:   "p50_earlier",
		Parts:      []string{partEarlier, partSame},
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureHeadOfLine(ctx, env, sys, env.Rows(1000))
			})
		},
	}
}

func measureHeadOfLine(ctx context.Context, env *Env, sys subject.System, quick uint64) (Figures, error) {
	var slowed subject.Counter
	tally := tallied(sys.Targets()[0], 1+quick, func(id uint64) error {
		if id == slowRow {
			slowed.Add()
			time.Sleep(env.Slow)
		}
		return nil
	})

	var latencies []time.Duration
	used, err := env.measure(func() error {
		first := uint64(slowRow)
		if env.Part == partEarlier {
			if err := sys.Insert(slowRow, 1); err != nil {
				return err
			}
			// On a slow machine the operation may begin only after the head start.
			if err := wait(ctx, slowed.Reached(1), "the slow operation to begin"); err != nil {
				return err
			}
			if err := pause(ctx, headStart); err != nil {
				return err
			}
			first++
		}
		begin := time.Now()
		if err := sys.Insert(first, slowRow+1+quick-first); err != nil {
			return err
		}
		var err error
		latencies, err = awaitEach(ctx, sys, slowRow+1, quick, begin)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := sys.AwaitAll(ctx, subject.Done); err != nil {
		return nil, err
	}

	var c checks
	c.worked(sys, tally, 1+quick, 1)
	return Figures{
		less("p50_"+env.Part, "ms", millis(quantile(latencies, 0.50))),
		less("max_"+env.Part, "ms", millis(quantile(latencies, 1))),
		less("cpu_"+env.Part, "ms", millis(used.cpu)),
	}, c.err()
}

// awaitEach returns for each of n rows the time from begin until it and all rows before it were seen done.
// That is never less than the row's own time, and needs no watcher for each row.
func awaitEach(ctx context.Context, sys subject.System, first, n uint64, begin time.Time) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for id := first; id < first+n; id++ {
		if err := sys.Await(ctx, id, subject.Done); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(begin))
	}
	return latencies, nil
}
