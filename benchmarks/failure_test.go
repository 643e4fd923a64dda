// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// errDown is the error of every failing call: one value, so that the error itself costs no time and no
// memory per row.
var errDown = errors.New("the target is down")

// outage is a time in which a target fails.
type outage struct {
	over  atomic.Bool
	tried []atomic.Bool
	// attempted counts the rows that were tried at least once during the outage, healed the calls that succeeded
	// after it.
	attempted, healed subject.Counter
}

// breakTarget makes the target fail for all rows, 0 ... n-1, until the outage is over.
func breakTarget(target *subject.Target, n uint64) *outage {
	o := &outage{tried: make([]atomic.Bool, n)}
	target.SetRule(func(id uint64) error {
		if o.over.Load() {
			o.healed.Add()
			return nil
		}
		if !o.tried[id].Swap(true) {
			o.attempted.Add()
		}
		return errDown
	})
	return o
}

// heal ends the outage, waits until all n rows are done, reports the time, and checks the result.
func (r *run) heal(o *outage, n uint64) {
	r.equal("rows that are Done while the target is down", r.sys.Count()[subject.Done], 0)
	done := o.healed.Reached(n)
	begin := time.Now()
	o.over.Store(true)
	r.wait(done, "every row to heal")
	r.awaitAll(subject.Done)
	r.duration(time.Since(begin), "heal")
	r.checkRows(subject.Done, n)
	r.equal("successful Update calls", o.healed.Load(), n)
	r.equal("Delete calls", r.target.Deletes.Load(), 0)
}

// BenchmarkFailing has 100,000 rows whose every operation fails, with a backoff of 100 ms to 1 s, and looks for 5 s after each
// was tried once. Then the target heals: the time until all rows are done.
func BenchmarkFailing(b *testing.B) {
	ledgers(b, failing, []contender[startSystem]{statekeel, statedb}, []contender[startSystem]{beside})
}

func failing(r *run, start startSystem) {
	defer r.system(start, subject.Options{RetryMin: 100 * time.Millisecond, RetryMax: time.Second})()
	n := r.rows(100_000)
	outage := breakTarget(r.target, n)
	heap, begin := heapInUse(), time.Now()
	r.load(0, n)
	r.wait(outage.attempted.Reached(n), "a first attempt at every row")
	r.duration(time.Since(begin), "first-pass")
	r.ReportMetric((heapInUse()-heap)/float64(n), "heap-B/object")

	before := r.target.Updates.Load()
	s := r.section()
	time.Sleep(r.window)
	// A short window may fall between two attempts.
	r.wait(r.target.Updates.Reached(before+1), "a retry")
	used := s.used()
	r.costs(used, r.target.Updates.Load()-before, "attempt")
	r.heal(outage, n)
}

// BenchmarkBreaker has a target that is down for 10 s, and 100,000 rows inserted at the beginning of that. The CPU time is
// taken from the end of the first second on. Then the target heals, just after it was tried in vain if it is tried within a
// second. Backoffs are the default ones. Ten failures open Statekeel's breaker; the peer has none.
func BenchmarkBreaker(b *testing.B) { compare(b, breaker, statekeel, statedb) }

func breaker(r *run, start startSystem) {
	defer r.system(start, subject.Options{BreakerFailures: 10})()
	n := r.rows(100_000)
	outage := breakTarget(r.target, n)
	beginning := min(time.Second, r.outage/3)
	begin := time.Now()
	r.load(0, n)
	time.Sleep(beginning - time.Since(begin))

	before := r.target.Updates.Load()
	s := r.section()
	time.Sleep(r.outage - time.Since(begin))
	used := s.used()
	r.ReportMetric(float64(used.cpu)/used.wall.Seconds(), "CPU-ns/s")
	r.ReportMetric(float64(r.target.Updates.Load()-before)/used.wall.Seconds(), "attempts/s")
	// A target that heals right after it was tried has the longest wait before the next attempt.
	if r.within(r.target.Updates.Reached(r.target.Updates.Load()+1), beginning) {
		time.Sleep(50 * time.Millisecond)
	}
	r.heal(outage, n)
}

// BenchmarkStarvation has one row that fails once, its retry due 50 ms later, while a writer keeps at least 10,000 changed rows
// waiting: how long after it was due the retry comes. It is given up after 5 s.
func BenchmarkStarvation(b *testing.B) { compare(b, starvation, statekeel, statedb) }

const (
	// victim is the number of the row that fails once: the first of the first transaction. Its retry is due
	// victimBackoff later.
	victim        = 0
	victimBackoff = 50 * time.Millisecond
	// lowWater rows are always waiting: more than one round of any contender.
	lowWater = 10_000
)

// flood saturates a system with fresh rows, among them the victim.
//
// The backlog never becomes empty: a target that is too far ahead of the writer waits for it. So a contender
// is saturated on machines and with writers of any speed.
type flood struct {
	*run
	highWater uint64 // rows waiting that make the writer pause, to bound the memory of a long run

	inserted atomic.Uint64 // rows committed
	handled  atomic.Uint64 // rows other than the victim that reached the target
	least    atomic.Uint64 // waiting rows, until the writer stops
	stopping atomic.Bool
	failed   atomic.Pointer[time.Time] // when the victim failed
	retried  chan time.Duration        // after its failure
}

func starvation(r *run, start startSystem) {
	defer r.system(start, subject.Options{RetryMin: victimBackoff, RetryMax: victimBackoff})()
	f := &flood{run: r, highWater: max(r.rows(100_000), 2*lowWater), retried: make(chan time.Duration, 1)}
	f.least.Store(f.highWater)
	r.target.SetRule(f.handle)
	f.inserted.Store(f.highWater)
	r.must(r.sys.Insert(victim, f.highWater))
	ended := make(chan error)
	go func() { ended <- f.write() }()

	waited := victimBackoff + r.patience
	select {
	case waited = <-f.retried:
	case <-time.After(waited):
	}
	f.stopping.Store(true)
	r.must(<-ended)
	r.duration(max(0, waited-victimBackoff), "late")

	r.awaitAll(subject.Done)
	rows := f.inserted.Load()
	r.atLeast("rows waiting at all times until the retry", f.least.Load(), lowWater)
	r.checkRows(subject.Done, rows)
	r.checkCalls(rows+1, 0)
}

func (f *flood) write() error {
	for !f.stopping.Load() {
		if f.waiting() >= f.highWater {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if err := f.sys.Insert(f.inserted.Load(), writeBatch); err != nil {
			return err
		}
		f.inserted.Add(writeBatch)
	}
	return nil
}

// waiting returns the number of rows that are committed and have not reached the target. The victim always
// counts as waiting.
func (f *flood) waiting() uint64 { return f.inserted.Load() - f.handled.Load() }

// handle is the target's rule. The contender has one worker.
func (f *flood) handle(id uint64) error {
	if id == victim {
		return f.handleVictim()
	}
	f.handled.Add(1)
	for !f.stopping.Load() && f.waiting() <= lowWater {
		time.Sleep(20 * time.Microsecond)
	}
	if !f.stopping.Load() {
		f.least.Store(min(f.least.Load(), f.waiting()))
	}
	return nil
}

func (f *flood) handleVictim() error {
	now := time.Now()
	if f.failed.CompareAndSwap(nil, &now) {
		return errDown
	}
	f.retried <- now.Sub(*f.failed.Load())
	return nil
}
