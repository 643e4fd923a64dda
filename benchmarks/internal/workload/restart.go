// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func restartEqual() Workload {
	return restart("restart-equal", "all of them equal", func(uint64) bool { return false })
}

func restartOnePercent() Workload {
	return restart("restart-1-percent", "one in a hundred different", func(id uint64) bool { return id%100 == 0 })
}

// restart returns a workload in which a contender starts with a full table on a full target.
func restart(name, what string, different func(id uint64) bool) Workload {
	return Workload{
		Name: name,
		About: "A start with 700,000 rows in the table and in the target, a map, " + what + ": the time until all are " +
			"done, beyond the time that listing the map takes alone, and the operations. The peer applies every row; " +
			"here its operations cost nothing.",
		Contenders: []string{subject.StatekeelBeside, subject.Statekeel, subject.Peer},
		Runs:       fewRuns,
		Headline:   "beyond_listing",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n, gate := env.Rows(700_000), make(chan struct{})
			l := subject.NewListing(n, gate, different)
			// What does not list waits in its first operation while the table is filled.
			hold := func(t *subject.Target) { t.SetRule(func(id uint64) error { <-gate; l.Apply(id); return nil }) }
			return env.with(ctx, subject.Options{Listed: l, Prepare: hold}, func(sys subject.System) (Figures, error) {
				return measureRestart(ctx, env, sys, l, n, func() { close(gate) }, different)
			})
		},
	}
}

func measureRestart(
	ctx context.Context, env *Env, sys subject.System, l *subject.Listing, n uint64, open func(), different func(uint64) bool,
) (Figures, error) {
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	var alone time.Duration
	want := n
	if l.Lists() {
		alone, want = l.Alone(), 0
		for id := range n {
			if different(id) {
				want++
			}
		}
	}
	used, err := env.observe(func(watch *stopwatch) error {
		open()
		if err := sys.Await(ctx, n-1, subject.Done); err != nil {
			return err
		}
		watch.read()
		stragglers, err := sys.AwaitAll(ctx, subject.Done)
		if stragglers > 0 {
			watch.read()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var c checks
	if l.Lists() {
		// The resync after the start finds everything equal, and so calls no operation.
		if err := untilResync(ctx, l, time.Time{}, func() error { return pause(ctx, time.Millisecond) }); err != nil {
			return nil, err
		}
		c.equal("rows that are equal in the end", uint64(l.Last(ctx).Equal), n)
		for id := range n {
			if l.Applied(id) != different(id) {
				return nil, fmt.Errorf("check failed: row %d: applied %t, different %t", id, l.Applied(id), different(id))
			}
		}
	}
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.calls(sys, want, 0)
	return Figures{
		less("beyond_listing", "s", (used.wall - alone).Seconds()),
		less("operations", "calls", float64(sys.Targets()[0].Updates.Load())),
		cost("cpu", "us/object", micros(used.cpu), n),
		info("listing", "s", alone.Seconds()),
	}, c.err()
}

func resync() Workload {
	return Workload{
		Name: "resync",
		About: "A resync of 1,000,000 equal rows, of a target that is a map: its time for a row beyond that of listing the map " +
			"alone, the latency of rows of which one is inserted each 5 ms meanwhile, and the memory that it holds " +
			"for a listed object.",
		Contenders: []string{subject.StatekeelBeside, subject.Statekeel},
		Runs:       fewRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n, gate := env.Rows(1_000_000), make(chan struct{})
			close(gate)
			l := subject.NewListing(n, gate, func(uint64) bool { return false })
			return env.with(ctx, subject.Options{Listed: l}, func(sys subject.System) (Figures, error) {
				return measureResync(ctx, env, sys, l, n)
			})
		},
	}
}

func measureResync(ctx context.Context, env *Env, sys subject.System, l *subject.Listing, n uint64) (Figures, error) {
	if err := loadDone(ctx, sys, n); err != nil {
		return nil, err
	}
	// The resync after the start.
	if err := untilResync(ctx, l, time.Time{}, func() error { return pause(ctx, time.Millisecond) }); err != nil {
		return nil, err
	}
	before := sys.Targets()[0].Updates.Load()
	alone := l.Alone()
	var latencies []time.Duration
	next := n
	_, err := env.measure(func() error {
		began := time.Now()
		l.Resync()
		at := began
		insert := func() error {
			// A row each 5 ms: one that is late for another counts from when it should have been written.
			at = at.Add(5 * time.Millisecond)
			if err := pause(ctx, time.Until(at)); err != nil {
				return err
			}
			err := sys.Insert(next, 1)
			if err == nil {
				err = sys.Await(ctx, next, subject.Done)
			}
			latencies = append(latencies, time.Since(at))
			next++
			return err
		}
		if err := insert(); err != nil {
			return err
		}
		return untilResync(ctx, l, began, insert)
	})
	if err != nil {
		return nil, err
	}
	last := l.Last(ctx)
	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Done: next})
	c.equal("equal rows", uint64(last.Equal), n)
	c.equal("listed rows", uint64(last.Listed), n)
	c.equal("rows to repair or delete", uint64(last.Different+last.Missing+last.Orphan), 0)
	c.equal("Update calls for fresh rows", sys.Targets()[0].Updates.Load()-before, next-n)
	c.add(failure(last.Error))

	// Another one for its memory, since a collection takes time.
	clean := heapInUse()
	var held float64
	l.AtEnd = func() { held = heapInUse() - clean }
	began := time.Now()
	l.Resync()
	if err := untilResync(ctx, l, began, func() error { return pause(ctx, time.Millisecond) }); err != nil {
		return nil, err
	}
	return Figures{
		cost("beyond_listing", "us/object", micros(last.Took-alone), n),
		less("fresh_p99", "ms", millis(quantile(latencies, 0.99))),
		info("fresh_rows", "rows", float64(next-n)),
		cost("memory", "B/object", held, n),
		info("listing", "s", alone.Seconds()),
	}, c.err()
}

// failure returns the error of a record.
func failure(text string) error {
	if text == "" {
		return nil
	}
	return fmt.Errorf("the resync failed: %s", text)
}

// untilResync calls meanwhile until a resync that began after a time has ended.
func untilResync(ctx context.Context, l *subject.Listing, after time.Time, meanwhile func() error) error {
	for {
		if r := l.Last(ctx); r != nil && !r.Adopts && r.Started.After(after) {
			return nil
		}
		if err := meanwhile(); err != nil {
			return err
		}
	}
}
