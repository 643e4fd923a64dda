// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// Whatever fails in whatever state, the target matches the table in the end.
func TestStepsConvergeUnderFaults(t *testing.T) {
	for name, engine := range map[string]func(*faulty) stepper.Engine[*row]{
		"stepper":    func(f *faulty) stepper.Engine[*row] { return stepper.NewStepper(f) },
		"free style": func(f *faulty) stepper.Engine[*row] { return stepper.NewFreeStyle(f) },
	} {
		for _, workers := range []int{1, 8} {
			for range long.Times(2) {
				seed := rand.Uint64()
				t.Run(fmt.Sprintf("%s, %d worker(s), seed %d", name, workers, seed), func(t *testing.T) {
					f := &faulty{rng: rand.New(rand.NewPCG(seed, 1)), holds: map[uint64]int{}, faults: true}
					inBubble(t, engine(f), func(e *env) { converge(e, f, rand.New(rand.NewPCG(seed, 0))) },
						reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxRetries = workers, 2 }),
						reconciler.WithRetry(10*time.Millisecond, 100*time.Millisecond),
						reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = 5 }))
				})
			}
		}
	}
}

// converge changes the table at random while there are faults, then removes the faults and compares
// target and table.
func converge(e *env, f *faulty, rng *rand.Rand) {
	const rows = 20
	for step := range 200 {
		id := uint64(1 + rng.IntN(rows))
		if rng.IntN(4) == 0 {
			e.Remove(id)
		} else {
			e.Insert(pending(id, step))
		}
		if rng.IntN(3) == 0 {
			e.Pass(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
	}
	e.Pass(time.Second)
	f.mu.Lock()
	f.faults = false
	f.mu.Unlock()
	// Rows that were given up wait for a change. Deletions are never given up.
	want := map[uint64]int{}
	var rest []*row
	for r := range e.Table.All(e.DB.ReadTxn()) {
		rest = append(rest, pending(r.ID, 1000))
		want[r.ID] = 1000
	}
	e.Insert(rest...)
	e.Pass(time.Minute)
	require.Equal(e, want, f.holds)
	for r := range e.Table.All(e.DB.ReadTxn()) {
		require.Equal(e, reconciler.StatusKindDone, r.Status.Kind, "row %d: %s", r.ID, r.Status)
	}
	require.True(e, e.applied())
	require.False(e, f.running.Violated(), "two reconciliations of a row at once")
	require.NotZero(e, f.count, "there were no faults")
}

// faulty is a target with a hook that fails at random.
type faulty struct {
	running harness.Exclusive[uint64]

	mu     sync.Mutex
	rng    *rand.Rand
	faults bool
	count  int
	holds  map[uint64]int
}

// EnterInState sets the value in Updater and removes it in CRFinalizer. It may fail in any state.
func (f *faulty) EnterInState(e *stepper.Stepper[*row]) {
	f.misbehave(&e.Call)
	switch e.GetState() {
	case stepper.CRChecker:
		f.refuse(&e.Call)
	case stepper.Updater, stepper.CRFinalizer:
		f.apply(&e.Call)
	}
}

func (f *faulty) ReconcileWithCR(e *stepper.FreeStyle[*row]) {
	f.misbehave(&e.Call)
	if !e.Deleted() {
		f.refuse(&e.Call)
	}
	if e.ErrorsCount() == 0 {
		f.apply(&e.Call)
	}
}

// refuse gives up some values, also for deleted rows.
func (f *faulty) refuse(c *call) {
	if c.Object().Value%10 == 7 {
		c.AddGiveupError("", "refused", errors.New("no such size"))
	}
}

// misbehave at random fails, gives up, adds a delay, takes time or panics.
func (f *faulty) misbehave(c *call) {
	f.mu.Lock()
	what := 100
	if f.faults {
		what = f.rng.IntN(40)
	}
	if what < 6 {
		f.count++
	}
	f.mu.Unlock()
	after := time.Duration(what) * 5 * time.Millisecond
	switch what {
	case 0, 1:
		c.AddOp("", "failed", errors.New("fault"), after)
	case 2:
		c.AddGiveupError("", "given up", errors.New("alarming"))
	case 3:
		c.AddGiveupError("", "given up", nil)
	case 4:
		c.AddOp("", "done", nil, after)
	case 5:
		panic("fault")
	case 6, 7:
		time.Sleep(after)
	}
}

// apply sleeps, so that a concurrent call for the same row is detected.
func (f *faulty) apply(c *call) {
	id := c.Object().ID
	defer f.running.Enter(id)()
	time.Sleep(time.Microsecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Deleted() {
		delete(f.holds, id)
	} else {
		f.holds[id] = c.Object().Value
	}
}
