// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

var small = flag.Bool("small", false, "a thousandth of the rows, and short times: the figures mean nothing, but all checks hold")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sizes determines how large and how long a benchmark is.
type sizes struct {
	// fraction divides the numbers of rows.
	fraction uint64
	// window is how long a steady state is observed.
	window time.Duration
	// patience is the longest wait for what may never come.
	patience time.Duration
	// settle is how long a system is left alone before it is measured.
	settle time.Duration
	// refresh is the refresh interval.
	refresh time.Duration
	// slow is the duration of an operation that others must not wait for.
	slow time.Duration
	// outage is how long a target is down.
	outage time.Duration
}

func size() sizes {
	if *small {
		return sizes{
			fraction: 1000, window: 50 * time.Millisecond, patience: 150 * time.Millisecond,
			refresh: 50 * time.Millisecond, slow: 20 * time.Millisecond, outage: 150 * time.Millisecond,
		}
	}
	return sizes{
		fraction: 1, window: 5 * time.Second, patience: 5 * time.Second, settle: 2 * time.Second,
		refresh: time.Second, slow: 2 * time.Second, outage: 10 * time.Second,
	}
}

// rows scales a number of rows.
func (s sizes) rows(full uint64) uint64 { return min(full, max(20, full/s.fraction)) }

// contender is an implementation with a name.
type contender[Start any] struct {
	name  string
	start Start
}

// startSystem starts a contender on a table.
type startSystem = func(subject.Options) (subject.System, error)

var (
	statekeel = contender[startSystem]{"statekeel", subject.Statekeel}
	beside    = contender[startSystem]{"statekeel", subject.StatekeelBeside}
	statedb   = contender[startSystem]{"statedb", subject.Peer}
	unlimited = contender[startSystem]{"statedb+inf", func(o subject.Options) (subject.System, error) {
		o.Unlimited = true
		return subject.Peer(o)
	}}
	floor       = contender[startSystem]{"floor", subject.Floor}
	floorBeside = contender[startSystem]{"floor", subject.FloorBeside}
)

// limit is the longest duration of a run.
const limit = 5 * time.Minute

// compare runs a sub-benchmark for each contender. A metric is that of the last iteration, so more than one is of no use.
func compare[Start any](b *testing.B, measure func(*run, Start), contenders ...contender[Start]) {
	for _, c := range contenders {
		b.Run("impl="+c.name, func(b *testing.B) {
			for b.Loop() {
				once(b, measure, c.start)
			}
			b.ReportMetric(0, "ns/op") // leaves it out
		})
	}
}

// once runs a benchmark once.
func once[Start any](b *testing.B, measure func(*run, Start), start Start) {
	ctx, cancel := context.WithTimeoutCause(b.Context(), limit, errors.New("the run is stuck"))
	defer cancel()
	measure(&run{B: b, ctx: ctx, sizes: size()}, start)
}

// ledgers compares contenders with outcomes in the rows, and others with outcomes beside the table.
func ledgers(b *testing.B, measure func(*run, startSystem), inRows, besideTable []contender[startSystem]) {
	b.Run("ledger=row", func(b *testing.B) { compare(b, measure, inRows...) })
	b.Run("ledger=beside", func(b *testing.B) { compare(b, measure, besideTable...) })
}

// run is one run of a benchmark, with the system that it is about. What fails ends it.
type run struct {
	*testing.B
	sizes
	ctx    context.Context
	sys    subject.System
	target *subject.Target // the first of the system
}

func (r *run) must(err error) {
	if err != nil {
		r.Helper()
		r.Fatal(err)
	}
}

// system starts the system that the run is about, and returns the function that stops it.
func (r *run) system(start startSystem, o subject.Options) (stop func()) {
	sys, err := start(o)
	r.must(err)
	r.sys, r.target = sys, sys.Targets()[0]
	return func() { r.stop(sys.Stop) }
}

// stop stops a contender, also after the time of the run is up.
func (r *run) stop(stop func(context.Context) error) {
	if err := stop(context.WithoutCancel(r.ctx)); err != nil {
		r.Error(err)
	}
}

// writeBatch is the number of rows that a writer writes in one transaction.
const writeBatch = 1000

// inBatches calls write for rows first ... first+n-1, size rows at a time.
func (r *run) inBatches(first, n, size uint64, write func(first, n uint64) error) {
	for end := first + n; first < end; first += size {
		r.must(write(first, min(size, end-first)))
	}
}

// load inserts rows first ... first+n-1.
func (r *run) load(first, n uint64) { r.inBatches(first, n, writeBatch, r.sys.Insert) }

func (r *run) await(id uint64, kind subject.Kind) { r.must(r.sys.Await(r.ctx, id, kind)) }

// awaitAll waits until all rows are of that kind, and reports whether they were already.
func (r *run) awaitAll(kind subject.Kind) (were bool) {
	waited, err := r.sys.AwaitAll(r.ctx, kind)
	r.must(err)
	return waited == 0
}

// wait waits for an event. The error names what did not happen.
func (r *run) wait(event <-chan struct{}, what string) {
	select {
	case <-event:
	case <-r.ctx.Done():
		r.Fatalf("waited for %s: %v", what, context.Cause(r.ctx))
	}
}

// within waits for an event, at most for a limit, and reports whether it came.
func (r *run) within(event <-chan struct{}, limit time.Duration) (came bool) {
	select {
	case <-event:
		return true
	case <-time.After(limit):
		return false
	}
}

// writeUntil inserts n rows, size rows in a transaction, waits until all are of that kind, and returns the usage.
func (r *run) writeUntil(n, size uint64, kind subject.Kind) usage {
	s := r.section()
	r.inBatches(0, n, size, r.sys.Insert)
	// A wait for the last row is cheap, and mostly that row is also the last to be reconciled. The walk
	// over all rows counts only if it was not.
	r.await(n-1, kind)
	used := s.used()
	if were := r.awaitAll(kind); !were {
		used = s.used()
	}
	return used
}

// probe inserts rows first, first+1, ... first+n-1 one by one, and returns for each the time from before the insert until
// its Done was seen through a watch channel. gap is the pause after each; 0 is back to back.
func (r *run) probe(first, n uint64, gap time.Duration) []time.Duration {
	latencies := make([]time.Duration, 0, n)
	for id := first; id < first+n; id++ {
		begin := time.Now()
		r.must(r.sys.Insert(id, 1))
		r.await(id, subject.Done)
		latencies = append(latencies, time.Since(begin))
		time.Sleep(gap)
	}
	return latencies
}

// usage is what a section of a run took of the process: contender, writer and garbage collector together.
type usage struct {
	wall, cpu     time.Duration // cpu is user and system
	allocs, bytes uint64        // allocated, whether or not freed since
}

// section is a section of a run that is measured.
type section struct {
	at  time.Time
	cpu time.Duration
	mem runtime.MemStats
}

// section begins one. It collects garbage first, so that the section does not pay for garbage from before.
func (r *run) section() *section {
	collectGarbage()
	s := &section{}
	runtime.ReadMemStats(&s.mem)
	s.cpu = processTime()
	s.at = time.Now()
	return s
}

// used returns what was used since the beginning; it reads the clock first.
func (s *section) used() usage {
	wall, cpu := time.Since(s.at), processTime()-s.cpu
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return usage{wall: wall, cpu: cpu, allocs: mem.Mallocs - s.mem.Mallocs, bytes: mem.TotalAlloc - s.mem.TotalAlloc}
}

// collectGarbage collects twice: what a finalizer or a sync.Pool kept alive in the first collection is freed
// in the second.
func collectGarbage() {
	runtime.GC()
	runtime.GC()
}

// heapInUse returns the bytes of live objects.
func heapInUse() float64 {
	collectGarbage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return float64(mem.HeapAlloc)
}

// processTime returns the CPU time of this process so far.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		// Only a bad argument can make it fail.
		panic("getrusage: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// throughput reports what n objects took, each of which is called unit.
func (r *run) throughput(used usage, n uint64, unit string) {
	r.ReportMetric(float64(n)/used.wall.Seconds(), unit+"s/s")
	r.costs(used, n, unit)
}

// costs reports what each of n objects took of the process.
func (r *run) costs(used usage, n uint64, unit string) {
	r.ReportMetric(float64(used.cpu)/float64(n), "CPU-ns/"+unit)
	r.ReportMetric(float64(used.bytes)/float64(n), "B/"+unit)
	r.ReportMetric(float64(used.allocs)/float64(n), "allocs/"+unit)
}

// duration reports a time. benchstat shows nanoseconds as seconds, with the prefix that fits.
func (r *run) duration(d time.Duration, name string) { r.ReportMetric(d.Seconds(), name+"-sec") }

// quantile returns the nearest-rank quantile: the smallest sample that at least a share q of the samples
// does not exceed; q = 1 is the maximum. It sorts the samples, of which there must be at least one.
func quantile(samples []time.Duration, q float64) time.Duration {
	slices.Sort(samples)
	rank := int(q * float64(len(samples)))
	if float64(rank) == q*float64(len(samples)) {
		rank--
	}
	return samples[max(rank, 0)]
}
