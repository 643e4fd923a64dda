// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// BenchmarkLatency inserts one row into an idle system, and the next as soon as a watch channel has shown it done, 2000
// times.
func BenchmarkLatency(b *testing.B) {
	ledgers(b, latency,
		[]contender[startSystem]{statekeel, statedb, unlimited, floor},
		[]contender[startSystem]{beside, statedb, unlimited, floorBeside})
}

func latency(r *run, start startSystem) {
	defer r.system(start, subject.Options{})()
	n := r.rows(2000)
	s := r.section()
	latencies := r.probe(0, n, 0)
	used := s.used()
	r.duration(quantile(latencies, 0.50), "p50")
	r.duration(quantile(latencies, 0.99), "p99")
	r.ReportMetric(float64(used.cpu)/float64(n), "CPU-ns/object")
	r.checkRows(subject.Done, n)
	r.checkCalls(n, 0)
}

// BenchmarkRefresh refreshes 100,000 rows every second with no limit on the rate, and looks for 5 s from the first refresh
// on: what a refresh costs, and how long a fresh row, inserted every 10 ms meanwhile, takes until it is done.
func BenchmarkRefresh(b *testing.B) {
	ledgers(b, refresh, []contender[startSystem]{statekeel, statedb}, []contender[startSystem]{beside})
}

// freshSpacing is the pause between two fresh rows.
const freshSpacing = 10 * time.Millisecond

func refresh(r *run, start startSystem) {
	defer r.system(start, subject.Options{RefreshEvery: r.refresh})()
	n := r.rows(100_000)
	r.load(0, n)
	r.wait(r.target.Updates.Reached(n+1), "the first refresh")

	var latencies []time.Duration
	before := r.target.Updates.Load()
	s := r.section()
	for begin := time.Now(); time.Since(begin) < r.window; {
		latencies = append(latencies, r.probe(n+uint64(len(latencies)), 1, freshSpacing)...)
	}
	// A short window may fall between two refreshes.
	fresh := uint64(len(latencies))
	r.wait(r.target.Updates.Reached(before+fresh+1), "a refresh")
	used := s.used()
	refreshes := r.target.Updates.Load() - before - fresh
	r.ReportMetric(float64(refreshes)/used.wall.Seconds(), "refreshes/s")
	r.costs(used, refreshes, "refresh")
	r.duration(quantile(latencies, 0.99), "fresh-p99")

	counts := r.sys.Count()
	r.equal("rows", counts[subject.Done]+counts[subject.Waiting], n+fresh)
	r.equal("rows that are Error", counts[subject.Failed], 0)
	r.equal("Delete calls", r.target.Deletes.Load(), 0)
}

// BenchmarkHeadOfLine inserts a row whose operation takes 2 s, and 10 ms later 1000 whose operation does nothing: the time of
// these until they are done. Statekeel has two workers. The peer does one operation at a time.
func BenchmarkHeadOfLine(b *testing.B) {
	compare(b, func(r *run, start startSystem) { headOfLine(r, start, 2) }, statekeel)
	compare(b, func(r *run, start startSystem) { headOfLine(r, start, 1) }, statedb)
}

func headOfLine(r *run, start startSystem, workers int) {
	defer r.system(start, subject.Options{Workers: workers})()
	const slowRow = 0
	var slowed subject.Counter
	quick := r.rows(1000)
	tally := tallied(r.target, 1+quick, func(id uint64) error {
		if id == slowRow {
			slowed.Add()
			time.Sleep(r.slow)
		}
		return nil
	})
	// The first prune waits for operations that run, and holds others back meanwhile.
	r.wait(r.target.Prunes.Reached(1), "the first prune")
	r.must(r.sys.Insert(slowRow, 1))
	// On a slow machine the operation may begin only after the pause.
	r.wait(slowed.Reached(1), "the slow operation to begin")
	time.Sleep(10 * time.Millisecond)

	begin := time.Now()
	r.must(r.sys.Insert(slowRow+1, quick))
	var latencies []time.Duration
	for id := uint64(slowRow + 1); id <= slowRow+quick; id++ {
		// The time until this row and all before it were seen done: never less than its own time.
		r.await(id, subject.Done)
		latencies = append(latencies, time.Since(begin))
	}
	r.duration(quantile(latencies, 0.50), "p50")
	r.duration(quantile(latencies, 1), "max")
	r.awaitAll(subject.Done)
	r.checkWorked(tally, 1+quick, workers)
}

// BenchmarkBacklog has 20,000 rows, and a target that sleeps a millisecond for each. After half a second, and then for 5 s,
// new rows are inserted one after another, 10 ms after the one before was done: how long each takes until it is done too.
// Each contender has one worker. A new row that is not done within 5 s is given up, and is the last.
func BenchmarkBacklog(b *testing.B) { compare(b, backlog, statekeel, statedb) }

func backlog(r *run, start startSystem) {
	defer r.system(start, subject.Options{})()
	// Not less in a small run: no contender finishes it before the first new row is inserted, even if that is late.
	const n = uint64(20_000)
	var handled atomic.Uint64 // of the load
	var eased atomic.Bool
	tally := tallied(r.target, n+uint64(r.window/freshSpacing)+1, func(id uint64) error {
		if id < n {
			handled.Add(1)
		}
		if !eased.Load() {
			time.Sleep(slowOperation)
		}
		return nil
	})
	r.load(0, n)
	time.Sleep(r.window / 10)
	var latencies []time.Duration
	most := uint64(0) // of the load, when a new row was done
	for begin, done := time.Now(), true; done && time.Since(begin) < r.window; time.Sleep(freshSpacing) {
		var took time.Duration
		took, done = r.insertAndAwait(n + uint64(len(latencies)))
		latencies = append(latencies, took)
		if done {
			most = handled.Load()
		}
	}
	r.duration(quantile(latencies, 0.50), "p50")
	r.duration(quantile(latencies, 1), "max")

	eased.Store(true)
	r.awaitAll(subject.Done)
	r.atMost("rows of the load that were handled when a new row was done", most, n-1)
	r.checkWorked(tally, n+uint64(len(latencies)), 1)
}

// insertAndAwait inserts a row and returns the time until it was done; done is false if that did not come in time.
func (r *run) insertAndAwait(id uint64) (took time.Duration, done bool) {
	begin := time.Now()
	r.must(r.sys.Insert(id, 1))
	errGivenUp := errors.New("given up")
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.patience, errGivenUp)
	defer cancel()
	err := r.sys.Await(ctx, id, subject.Done)
	if errors.Is(err, errGivenUp) {
		return r.patience, false
	}
	r.must(err)
	return time.Since(begin), true
}
