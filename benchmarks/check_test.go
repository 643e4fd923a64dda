// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func (r *run) equal(what string, got, want uint64) {
	if got != want {
		r.Helper()
		r.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func (r *run) atLeast(what string, got, want uint64) {
	if got < want {
		r.Helper()
		r.Errorf("%s: got %d, want at least %d", what, got, want)
	}
}

func (r *run) atMost(what string, got, want uint64) {
	if got > want {
		r.Helper()
		r.Errorf("%s: got %d, want at most %d", what, got, want)
	}
}

// checkRows checks that there are n rows, all of one kind.
func (r *run) checkRows(kind subject.Kind, n uint64) {
	r.Helper()
	counts := r.sys.Count()
	for _, k := range []subject.Kind{subject.Waiting, subject.Done, subject.Failed} {
		want := uint64(0)
		if k == kind {
			want = n
		}
		r.equal(fmt.Sprintf("rows that are %s", k), counts[k], want)
	}
}

// checkCalls checks the number of calls of the first target.
func (r *run) checkCalls(updates, deletes uint64) {
	r.Helper()
	r.equal("Update calls", r.target.Updates.Load(), updates)
	r.equal("Delete calls", r.target.Deletes.Load(), deletes)
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

// checkEach checks that each row had at least one call and at most so many.
func (r *run) checkEach(calls rowCalls, most uint32) {
	r.Helper()
	for id, n := range calls {
		if n == 0 || n > most {
			r.Errorf("Update calls for row %d: got %d, want 1 to %d", id, n, most)
			return
		}
	}
}

// anyNumber is the bound of checkEach for rows that may be called for again.
const anyNumber = math.MaxUint32

// tally counts the calls for each row, and the most operations that ran at a time.
type tally struct {
	calls   []atomic.Uint32
	running atomic.Int64
	most    atomic.Int64
	// ended counts the calls that have ended. A run that checks the tally waits for ended: the target counts a
	// call before the tally does.
	ended subject.Counter
}

// newTally returns a tally of the calls for rows 0 ... n-1. There must be no other rows.
func newTally(n uint64) *tally { return &tally{calls: make([]atomic.Uint32, n)} }

// tallied makes the target do work for each Update, and returns a tally of the calls for rows 0 ... n-1.
func tallied(target *subject.Target, n uint64, work func(id uint64) error) *tally {
	t := newTally(n)
	target.SetRule(t.rule(work))
	return t
}

// nothing is an operation that does nothing.
func nothing(uint64) error { return nil }

// rule returns a rule of the target that does work, and counts.
func (t *tally) rule(work func(id uint64) error) func(id uint64) error {
	return func(id uint64) error {
		t.calls[id].Add(1)
		running := t.running.Add(1)
		for most := t.most.Load(); running > most && !t.most.CompareAndSwap(most, running); {
			most = t.most.Load()
		}
		defer t.ended.Add()
		defer t.running.Add(-1)
		return work(id)
	}
}

// checkTally checks that each of rows 0 ... n-1 had that number of calls, and that no more ran at a time than there are
// workers.
func (r *run) checkTally(t *tally, n uint64, calls uint32, workers int) {
	r.Helper()
	for id := range n {
		if got := t.calls[id].Load(); got != calls {
			r.Errorf("calls for row %d: got %d, want %d", id, got, calls)
			break
		}
	}
	r.atMost("operations at a time", uint64(t.most.Load()), uint64(workers))
}

// checkWorked checks that rows 0 ... n-1 are done, each by one call.
func (r *run) checkWorked(t *tally, n uint64, workers int) {
	r.Helper()
	r.checkRows(subject.Done, n)
	r.checkCalls(n, 0)
	r.checkTally(t, n, 1, workers)
}

// spin does CPU work: a number of steps, each of which needs the one before. It does not run for a time,
// since a worker that shares its core would then finish its work while it does not run. It never returns 0.
// The caller must use the result: the compiler removes steps whose result is not used.
func spin(steps int) uint64 {
	x := uint64(math.MaxUint64)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// spinning returns a rule that takes d of CPU time for each row.
func spinning(d time.Duration) func(uint64) error {
	steps := stepsFor(d)
	return func(uint64) error {
		if spin(steps) == 0 {
			return errDown
		}
		return nil
	}
}

// stepsFor returns the number of steps that take d on a core that is not shared, by the fastest of several
// tries.
func stepsFor(d time.Duration) int {
	const (
		tries = 50
		steps = 100_000
	)
	fastest := time.Duration(math.MaxInt64)
	for range tries {
		begin := time.Now()
		if spin(steps) != 0 {
			fastest = min(fastest, time.Since(begin))
		}
	}
	return max(1, int(steps*float64(d)/float64(fastest)))
}

// tampered is a system that reports rows that are not there.
type tampered struct{ subject.System }

func (t tampered) Count() map[subject.Kind]uint64 {
	counts := t.System.Count()
	counts[subject.Done]++
	return counts
}

// eager is a system that calls its target once too often for each insert.
type eager struct{ subject.System }

func (e eager) Insert(first, n uint64) error {
	e.Targets()[0].Updates.Add()
	return e.System.Insert(first, n)
}

func TestWrongResultFailsTheBenchmark(t *testing.T) {
	before := *small
	*small = true
	defer func() { *small = before }() // benchmarks run after the tests
	start := func(wrap func(subject.System) subject.System) startSystem {
		return func(o subject.Options) (subject.System, error) {
			sys, err := subject.Statekeel(o)
			return wrap(sys), err
		}
	}
	for name, c := range map[string]struct {
		start  startSystem
		passes bool
	}{
		"as it is":         {start(func(s subject.System) subject.System { return s }), true},
		"a row too many":   {start(func(s subject.System) subject.System { return tampered{s} }), false},
		"a call too many":  {start(func(s subject.System) subject.System { return eager{s} }), false},
		"it did not start": {func(subject.Options) (subject.System, error) { return nil, errDown }, false},
	} {
		t.Run(name, func(t *testing.T) {
			result := testing.Benchmark(func(b *testing.B) {
				for b.Loop() {
					once(b, noop, c.start)
				}
			})
			if passed := result.N > 0; passed != c.passes {
				t.Errorf("passed: %t", passed)
			}
		})
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	samples := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(samples, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
}
