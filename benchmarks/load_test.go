// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"testing"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// BenchmarkNoop inserts 1,000,000 rows in transactions of 1000, which are reconciled meanwhile with operations that do
// nothing; from the first insert until all are done.
func BenchmarkNoop(b *testing.B) {
	ledgers(b, noop,
		[]contender[startSystem]{statekeel, unlimited, floor},
		[]contender[startSystem]{beside, unlimited, floorBeside})
}

func noop(r *run, start startSystem) {
	defer r.system(start, subject.Options{})()
	n := r.rows(1_000_000)
	calls := counted(r.target, n)
	before := heapInUse()
	used := r.writeUntil(n, writeBatch, subject.Done)
	r.throughput(used, n, "object")
	r.ReportMetric((heapInUse()-before)/float64(n), "heap-B/object")
	r.checkRows(subject.Done, n)
	r.checkCalls(n, 0)
	r.checkEach(calls, 1)
}

// BenchmarkReconcilers8 has eight reconcilers of 100,000 rows: with a status set in the row, or each with its ledger
// beside the table. From the first insert until each has reported all rows done.
func BenchmarkReconcilers8(b *testing.B) {
	ledgers(b, reconcilers,
		[]contender[startSystem]{statekeel, statedb},
		[]contender[startSystem]{beside, statedb, floorBeside})
}

func reconcilers(r *run, start startSystem) {
	defer r.system(start, subject.Options{Reconcilers: 8})()
	n := r.rows(100_000)
	var calls []rowCalls
	for _, target := range r.sys.Targets() {
		calls = append(calls, counted(target, n))
	}
	r.throughput(r.writeUntil(n, writeBatch, subject.Done), n, "object")
	r.checkRows(subject.Done, n)
	// More than one call a row is work repeated because another reconciler wrote its status. That is
	// wasteful, not wrong, so it is a figure and not a check.
	updates := uint64(0)
	for i, target := range r.sys.Targets() {
		updates += target.Updates.Load()
		r.checkEach(calls[i], anyNumber)
		r.equal("Delete calls", target.Deletes.Load(), 0)
	}
	r.ReportMetric(float64(updates)/float64(n*8), "calls/row")
}

const (
	// operationTime is the CPU time of an operation, rowTime that of the writer for each row.
	operationTime = 15 * time.Microsecond
	rowTime       = 20 * time.Microsecond
)

// BenchmarkLoad15us inserts 50,000 rows and, when all are done, deletes them, with operations that take 15 us of CPU time
// each. The writer takes 20 us of CPU time for each row and writes 5000 in a transaction, as Cilium's load balancer does: it
// works while it holds the table.
func BenchmarkLoad15us(b *testing.B) { compare(b, load15us, statekeel, statedb, unlimited) }

func load15us(r *run, start startSystem) {
	defer r.system(start, subject.Options{WriteWork: spinning(rowTime)})()
	n, batch := r.rows(50_000), r.rows(5_000)
	work := spinning(operationTime)
	updates := tallied(r.target, n, work)
	inserted := r.writeUntil(n, batch, subject.Done)
	r.checkWorked(updates, n, 1)

	deletes := newTally(n)
	r.target.SetDeleteRule(deletes.rule(work))
	last := deletes.ended.Reached(n)
	s := r.section()
	r.inBatches(0, n, batch, r.sys.Remove)
	r.wait(last, "the end of the last Delete call")
	deleted := s.used()
	r.duration(inserted.wall, "insert")
	r.ReportMetric(float64(inserted.cpu)/float64(n), "insert-CPU-ns/object")
	r.duration(deleted.wall, "delete")
	r.ReportMetric(float64(deleted.cpu)/float64(n), "delete-CPU-ns/object")
	r.checkRows(subject.Done, 0)
	r.checkCalls(n, n)
	r.checkTally(deletes, n, 1, 1)
}

// BenchmarkSlow inserts 10,000 rows, and the target sleeps a millisecond for each; from the first insert until all are done.
// Statekeel has 64 workers. The peer does one operation at a time.
func BenchmarkSlow(b *testing.B) {
	compare(b, func(r *run, start startSystem) { slow(r, start, 64) }, statekeel)
	compare(b, func(r *run, start startSystem) { slow(r, start, 1) }, statedb)
}

// slowOperation is the duration of an operation that waits for its target: a system call that sleeps, or an
// answer from the network.
const slowOperation = time.Millisecond

func slow(r *run, start startSystem, workers int) {
	defer r.system(start, subject.Options{Workers: workers})()
	n := r.rows(10_000)
	tally := tallied(r.target, n, func(uint64) error {
		time.Sleep(slowOperation)
		return nil
	})
	r.throughput(r.writeUntil(n, writeBatch, subject.Done), n, "object")
	r.checkWorked(tally, n, workers)
}
