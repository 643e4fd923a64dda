// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	// operationTime is the CPU time of an operation, rowTime that of the writer for each row.
	operationTime = 15 * time.Microsecond
	rowTime       = 20 * time.Microsecond
	// cilium is the number of rows in a transaction of Cilium's load balancer, which collects up to 5000
	// events and turns them into rows while it holds the tables.
	cilium = 5000
)

func load15us() Workload {
	return Workload{
		Name: "load-15us",
		About: "50,000 rows inserted and, when all are done, deleted, with operations that take 15 us of CPU time each. " +
			"The writer takes 20 us of CPU time for each row and writes 5000 in a transaction, as Cilium's load balancer " +
			"does: it works while it holds the table. From the first insert until all are done (insert_...), and from the " +
			"first deletion until the last Delete is over (delete_...).",
		Contenders: []string{subject.Statekeel, subject.Peer, subject.PeerInf},
		Runs:       closeRuns,
		Headline:   "insert_wall",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{WriteWork: spinning(stepsFor(rowTime))}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureBusyLoad(ctx, env, sys, env.Rows(50_000), env.Rows(cilium))
			})
		},
	}
}

// measureBusyLoad measures the insertion and the deletion of n rows, size rows in a transaction, with
// operations that use CPU time.
func measureBusyLoad(ctx context.Context, env *Env, sys subject.System, n, size uint64) (Figures, error) {
	steps := stepsFor(operationTime)
	target := sys.Targets()[0]
	updates := tallied(target, n, spinning(steps))
	inserted, err := writeUntil(ctx, env, sys, n, size, subject.Done)
	if err != nil {
		return nil, err
	}
	var c checks
	c.worked(sys, updates, n, 1)

	deletes := tallyDeletes(target, n, spinning(steps))
	deleted, err := env.measure(func() error {
		last := deletes.ended.Reached(n)
		if err := inBatches(0, n, size, sys.Remove); err != nil {
			return err
		}
		return wait(ctx, last, "the end of the last Delete call")
	})
	if err != nil {
		return nil, err
	}
	c.rows(sys, nil)
	c.calls(sys, n, n)
	c.each("Delete", deletes, n, 1)
	c.atMost("deletions at a time", deletes.inFlight(), uint64(sys.Workers()))
	return Figures{
		less("insert_wall", "s", inserted.wall.Seconds()),
		cost("insert_cpu", "us/object", micros(inserted.cpu), n),
		cost("insert_allocs", "allocs/object", float64(inserted.allocs), n),
		less("delete_wall", "s", deleted.wall.Seconds()),
		cost("delete_cpu", "us/object", micros(deleted.cpu), n),
		cost("delete_allocs", "allocs/object", float64(deleted.allocs), n),
		info("spin", "steps/operation", float64(steps)),
	}, c.err()
}

// tallyDeletes is tallied for deletions.
func tallyDeletes(target *subject.Target, n uint64, work func(id uint64) error) *tally {
	t := newTally(n)
	target.SetDeleteRule(t.rule(work))
	return t
}
