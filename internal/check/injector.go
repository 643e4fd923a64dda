// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/outcome"
)

// ErrInjected is the error of a fault. ErrKilled is that of a point of a program that was killed.
var (
	ErrInjected = errors.New("a fault of the test")
	ErrKilled   = errors.New("the program was killed by the test")
)

// KeyOf is the end of [Point].Key for an object of a table.
func KeyOf(table string, key []byte) string { return keyMark + table + keyMark + string(key) }

const keyMark = "\x00key\x00"

// Point is a place at which a run can fail.
type Point struct {
	Class Class
	Name  string
	// N counts how often the place was reached, from 1.
	N int
	// Key is what tells the reconciler, and [KeyOf] the object; empty for a batch or a listing. A step has that of its
	// operation.
	Key string
	// Shared is true for a step of a batch, or outside of operations: if it fails, any object may not be applied.
	Shared bool
}

// ofOneKey reports whether the point is the operation of one object, which must not overlap with another of it.
func (p Point) ofOneKey() bool { return p.Class == Operation || p.Class == Entry }

// Call is a call in the journal of a run.
type Call struct {
	Point
	// Fault is what was injected, empty if nothing was.
	Fault string
	Err   error
	// Ended is false while the call runs.
	Ended bool

	process *Process
}

func (c Call) String() string {
	text := c.Name
	if c.Fault != "" {
		text += ": " + c.Fault
	}
	switch {
	case !c.Ended:
		text += ": has not returned"
	case c.Err != nil && !errors.Is(c.Err, ErrInjected) && !errors.Is(c.Err, ErrKilled):
		text += ": " + c.Err.Error()
	}
	return text
}

// Injector injects the faults of one plan, and keeps a journal of the run. It is safe from any goroutine.
type Injector struct {
	// Outside are the changes from outside by name.
	Outside map[string]func()
	// Delay is how late a late effect is. Lapse is how long a call that times out takes at most. Grace is how long an
	// operation may go on after the end of its context.
	Delay, Lapse, Grace time.Duration
	// Refused are the names of calls that must not succeed, and do not have to.
	Refused []string

	late    atomic.Int64 // effects that are still to come
	mu      sync.Mutex
	faults  []Fault
	reached map[string]int
	lasting map[string]Point
	healed  bool
	steps   [][]Call
	wrong   []string
	parked  []string
	used    int
	// failures counts the errors of operations since the faults ended.
	failures map[string]int
	lastErr  map[string]error
	// refused has the Point.Key of calls of Refused.
	refused map[string]bool
	// hasPanicked is true after a panic that is not a fault.
	hasPanicked bool
}

// NewInjector returns an injector for the faults of a plan.
func NewInjector(faults []Fault) *Injector {
	return &Injector{
		faults: faults, reached: map[string]int{}, lasting: map[string]Point{},
		failures: map[string]int{}, lastErr: map[string]error{}, refused: map[string]bool{},
	}
}

// Begin begins a step of the journal.
func (x *Injector) Begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.steps = append(x.steps, nil)
}

// Heal ends all faults.
func (x *Injector) Heal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.healed = true
	clear(x.lasting)
	clear(x.failures)
}

// Healed reports whether the faults are over.
func (x *Injector) Healed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.healed
}

// Journal returns the calls of each step.
func (x *Injector) Journal() [][]Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	copied := make([][]Call, len(x.steps))
	for i, calls := range x.steps {
		copied[i] = slices.Clone(calls)
	}
	return copied
}

// Calls is the number of calls so far.
func (x *Injector) Calls() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, calls := range x.steps {
		n += len(calls)
	}
	return n
}

// OwnCalls returns the calls of operations so far, but for those that ask to be called again, or wait.
func (x *Injector) OwnCalls() (names []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	asked := map[string]bool{}
	for _, calls := range x.steps {
		for _, c := range calls {
			asked[c.Name] = asked[c.Name] || outcome.Of(c.Err) != nil
		}
	}
	for _, calls := range x.steps {
		for _, c := range calls {
			if c.ofOneKey() && !asked[c.Name] && !x.refused[c.Key] {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// Lasting returns the points that fail now, until Heal.
func (x *Injector) Lasting() (points []Point) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.lasting {
		points = append(points, p)
	}
	return points
}

// ListingLasts reports whether the plan has a listing that fails until Heal, which is still to come.
func (x *Injector) ListingLasts() bool {
	return !x.Healed() && slices.ContainsFunc(x.faults, func(f Fault) bool { return f.Kind == Lasting && strings.HasSuffix(f.Point, "list") })
}

// Used reports whether every fault of the plan was injected.
func (x *Injector) Used() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.used >= len(x.faults)
}

// Wrong returns what operations did that they must not do.
func (x *Injector) Wrong() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.wrong)
}

// Report adds to Wrong.
func (x *Injector) Report(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
}

// FailedMoreThan returns a call that has failed more than n times since the faults ended, and its last error.
func (x *Injector) FailedMoreThan(n int) (name string, times int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, times = range x.failures {
		if times > n && !slices.Contains(x.Refused, name) {
			return name, times, x.lastErr[name]
		}
	}
	return "", 0, nil
}

// Failed returns the operations on one object of the latest step that have failed.
func (x *Injector) Failed() (calls []Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.steps[len(x.steps)-1] {
		if c.ofOneKey() && failed(c.Err) {
			calls = append(calls, c)
		}
	}
	return calls
}

// IsRefused reports whether an operation of an object was called that must not succeed. key is that of [KeyOf].
func (x *Injector) IsRefused(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for refused := range x.refused {
		if strings.HasSuffix(refused, key) {
			return true
		}
	}
	return false
}

// Late is the number of late effects that are still to come.
func (x *Injector) Late() int64 { return x.late.Load() }

// Running returns the calls that have not returned, but for those of a process that was killed.
func (x *Injector) Running() (calls []Call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, step := range x.steps {
		for _, c := range step {
			if !c.Ended && !c.process.dead {
				calls = append(calls, c)
			}
		}
	}
	return calls
}

// Parked returns the names of the calls at which a process that was killed waits.
func (x *Injector) Parked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.parked)
}

// panicked reports a panic that is not a fault, once: it passes the steps of an operation, and the operation.
func (x *Injector) panicked(name string, v any) {
	if err, ok := v.(error); ok && errors.Is(err, ErrInjected) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.hasPanicked {
		x.hasPanicked = true
		x.wrong = append(x.wrong, fmt.Sprintf("%s panics: %v\n%s", name, v, debug.Stack()))
	}
}
