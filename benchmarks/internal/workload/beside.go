// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// aboutBeside ends the description of a workload that compares rows without a status.
const aboutBeside = " Statekeel's rows and those of the floor carry no status; the peer's do."

// besideThroughput are the contenders of rows without a status, with a variant of Statekeel.
func besideThroughput(variant string, more ...string) []string {
	return append(append([]string{variant}, more...), subject.Peer, subject.PeerInf, subject.FloorBeside)
}

func noopBeside(kind string, batch bool) Workload {
	return Workload{
		Name:       "noop-beside-" + kind,
		About:      "As noop-" + kind + ", with the ledger beside the table." + aboutBeside,
		Contenders: besideThroughput(subject.StatekeelBeside),
		Runs:       closeRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{Batch: batch}, func(sys subject.System) (Figures, error) {
				return measureNoopBeside(ctx, env, sys, env.Rows(1_000_000))
			})
		},
	}
}

func noopBesideWorkers() Workload {
	return Workload{
		Name:       "noop-beside-workers-8",
		About:      "As noop-beside-single, with eight workers, and one beside them." + aboutBeside,
		Contenders: besideThroughput(subject.StatekeelBeside8, subject.StatekeelBeside),
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				return measureNoopBeside(ctx, env, sys, env.Rows(1_000_000))
			})
		},
	}
}

func reconcilersBeside() Workload {
	w := statusSet(8)
	w.Name = "reconcilers-8-beside"
	w.About = "As statusset-8, with eight ledgers beside the table." + aboutBeside
	w.Contenders = []string{subject.StatekeelBeside, subject.Statekeel, subject.Peer, subject.FloorBeside}
	return w
}

// measureNoopBeside is measureLoad with a check that each row was reconciled once.
func measureNoopBeside(ctx context.Context, env *Env, sys subject.System, n uint64) (Figures, error) {
	calls := counted(sys.Targets()[0], n)
	used, held, err := loadUntil(ctx, env, sys, n, subject.Done)
	if err != nil {
		return nil, err
	}
	var c checks
	c.add(checkDone(sys, n))
	c.add(calls.check(0, exactly))
	return append(loadFigures(used, held, n), less("heap_total", "MiB", held/(1<<20))), c.err()
}

// rowCalls is the number of calls for each row. It is cheaper than a tally, and needs no atomic counters:
// operations of a row do not overlap, and it is read when all rows are Done.
type rowCalls []uint32

// counted makes the target count the calls for rows 0 ... n-1. There must be no other rows.
func counted(target *subject.Target, n uint64) rowCalls {
	calls := make(rowCalls, n)
	target.SetRule(func(id uint64) error {
		calls[id]++
		return nil
	})
	return calls
}

// The kinds of checks of calls.
const (
	exactly = true
	atLeast = false
)

// check checks that each row had one call, or at least one, and names the first row that had not.
func (r rowCalls) check(target int, exact bool) error {
	for id, calls := range r {
		if calls == 0 || exact && calls > 1 {
			return fmt.Errorf("check failed: Update calls to target %d for row %d: got %d, want 1", target, id, calls)
		}
	}
	return nil
}
