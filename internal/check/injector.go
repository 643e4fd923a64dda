// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/edgehook"
	"github.com/statekeel/statekeel/internal/outcome"
)

// ErrInjected is the error of a fault. ErrKilled is that of a point of a program that was killed.
var (
	ErrInjected = errors.New("a fault of the test")
	ErrKilled   = errors.New("the program was killed by the test")
)

// KeyMark stands before the key in [Point].Key.
const KeyMark = "\x00key\x00"

// Point is a place at which a run can fail.
type Point struct {
	Class Class
	Name  string
	// N counts how often the place was reached, from 1.
	N int
	// Key is what tells the reconciler, [KeyMark], and the key of the object; empty for a batch or a listing. A step has that
	// of its operation.
	Key string
	// Shared is true for a step of a batch, or outside of operations: if it fails, any object may not be applied.
	Shared bool
}

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
	// Delay is how late a late effect is. Grace is how long an operation may go on after the end of its context.
	Delay, Grace time.Duration

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
	// hasPanicked is true after a panic that is not a fault.
	hasPanicked bool
}

// NewInjector returns an injector for the faults of a plan.
func NewInjector(faults []Fault) *Injector {
	return &Injector{
		faults: faults, reached: map[string]int{}, lasting: map[string]Point{},
		failures: map[string]int{}, lastErr: map[string]error{},
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

// Lasting returns the points that fail now, until Heal.
func (x *Injector) Lasting() (points []Point) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.lasting {
		points = append(points, p)
	}
	return points
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

// Stubborn returns a call that has failed more than n times since the faults ended, and its last error.
func (x *Injector) Stubborn(n int) (name string, times int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, times = range x.failures {
		if times > n {
			return name, times, x.lastErr[name]
		}
	}
	return "", 0, nil
}

// Late is the number of late effects that are still to come.
func (x *Injector) Late() int64 { return x.late.Load() }

// Running returns the calls that have not returned, but for those of a process that was killed.
func (x *Injector) Running() (calls []Call) {
	for _, step := range x.Journal() {
		for _, c := range step {
			if !c.Ended && !c.process.isDead() {
				calls = append(calls, c)
			}
		}
	}
	return calls
}

// Process is one life of the program.
type Process struct {
	x        *Injector
	dead     bool           // with x.mu
	running  map[string]int // operations by key; with x.mu
	died     chan struct{}
	released chan struct{}
	release  sync.Once
	// Rewritten is true if the process was killed by [Rewritten]. Read it after Died.
	Rewritten bool
}

// Start begins a life of the program.
func (x *Injector) Start() *Process {
	return &Process{x: x, running: map[string]int{}, died: make(chan struct{}), released: make(chan struct{})}
}

// Died is closed when the process is killed.
func (p *Process) Died() <-chan struct{} { return p.died }

// Kill kills the process: its calls do not return before Release.
func (p *Process) Kill(rewritten bool) {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	if !p.dead {
		p.dead, p.Rewritten = true, rewritten
		close(p.died)
	}
}

// Release lets the calls of a process that was killed return an error. They have no further effect.
func (p *Process) Release() {
	p.Kill(false)
	p.release.Do(func() { close(p.released) })
}

// park waits until the process is released.
func (p *Process) park(at string) error {
	p.x.mu.Lock()
	p.x.parked = append(p.x.parked, at)
	p.x.mu.Unlock()
	<-p.released
	return ErrKilled
}

// Parked returns the names of the calls at which a process that was killed waits.
func (x *Injector) Parked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.parked)
}

// enter counts a call and chooses its fault.
func (p *Process) enter(at Point) (c *entered, parked bool) {
	x := p.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.dead {
		return nil, true
	}
	x.reached[at.Name]++
	at.N = x.reached[at.Name]
	c = &entered{p: p, Point: at, kind: noFault}
	if _, lasts := x.lasting[at.Name]; lasts {
		c.kind = Lasting
	} else if !x.healed {
		for _, f := range x.faults {
			if f.Point == at.Name && f.N == at.N {
				c.kind, c.outside = f.Kind, f.Outside
				x.used++
				if f.Kind == Lasting {
					x.lasting[at.Name] = at
				}
				break
			}
		}
	}
	call := Call{Point: at, process: p}
	if c.kind != noFault {
		call.Fault = c.kind.String()
		if c.outside != "" {
			call.Fault = c.outside
		}
	}
	if len(x.steps) == 0 {
		x.steps = append(x.steps, nil)
	}
	c.step = len(x.steps) - 1
	c.index = len(x.steps[c.step])
	x.steps[c.step] = append(x.steps[c.step], call)
	if at.Key != "" && at.Class == Operation || at.Class == Entry {
		if p.running[at.Key]++; p.running[at.Key] > 1 {
			x.wrong = append(x.wrong, fmt.Sprintf("two operations on one key overlap: %s", at.Name))
		}
	}
	return c, false
}

const noFault Kind = 255

// entered is a call between its begin and its end.
type entered struct {
	Point
	p           *Process
	kind        Kind
	outside     string
	step, index int
}

func (c *entered) leave(err error) {
	x := c.p.x
	x.mu.Lock()
	defer x.mu.Unlock()
	call := &x.steps[c.step][c.index]
	call.Err, call.Ended = err, true
	if c.Class != Edge && failed(err) && !c.p.dead {
		x.failures[c.Name]++
		x.lastErr[c.Name] = err
	}
	if c.Key != "" && c.Class == Operation || c.Class == Entry {
		c.p.running[c.Key]--
	}
}

// failed reports whether the error of an operation is a failure: not if it asks to be called again, or waits.
func failed(err error) bool {
	next := outcome.Of(err)
	return err != nil && (next == nil || next.Kind != core.DoneAgain && next.Kind != core.BlockedOn)
}

// Do carries out a call at a point, or its fault. half is for [Half]; nil if the call has no half.
func (p *Process) Do(ctx context.Context, at Point, call func(ctx context.Context) error, half func(ctx context.Context) error) (err error) {
	c, parked := p.enter(at)
	if parked {
		return p.park(at.Name)
	}
	ended := false
	defer func() {
		if !ended {
			v := recover()
			p.x.panicked(at.Name, v)
			c.leave(fmt.Errorf("panic: %v", v))
			panic(v)
		}
	}()
	err = p.act(ctx, c, call, half)
	ended = true
	c.leave(err)
	if p.isDead() {
		return p.park(at.Name)
	}
	return err
}

// Outcome is an object of a batch on its way: see [Process.Enter].
type Outcome struct {
	c   *entered
	err error // of a process that was killed
}

// Enter begins the call for one object of a batch. It is for the kinds of [Entry].
func (p *Process) Enter(at Point) Outcome {
	c, parked := p.enter(at)
	if parked {
		return Outcome{err: p.park(at.Name)}
	}
	return Outcome{c: c}
}

// Calls reports whether the object is in the call.
func (o Outcome) Calls() bool { return o.c != nil && (o.c.kind == noFault || o.c.kind == After) }

// Leave ends the call for the object, with the error of the operation. It returns the error that the reconciler gets.
func (o Outcome) Leave(err error) error {
	if o.c == nil {
		return o.err
	}
	switch o.c.kind {
	case Before, Lasting:
		err = ErrInjected
	case After:
		err = errors.Join(ErrInjected, err)
	}
	o.c.leave(err)
	return err
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

func (p *Process) isDead() bool {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	return p.dead
}

func (p *Process) act(ctx context.Context, c *entered, call, half func(ctx context.Context) error) error {
	if c.Class != Edge {
		ctx = edgehook.With(ctx, &place{p: p, at: c.Point})
	}
	switch c.kind {
	case Before, Lasting:
		return ErrInjected
	case After:
		return errors.Join(ErrInjected, p.watched(ctx, c, call))
	case Lost:
		return nil
	case Late:
		p.x.late.Add(1)
		go func() {
			defer p.x.late.Add(-1)
			defer func() {
				if v := recover(); v != nil {
					p.x.panicked(c.Name+", whose effect came late,", v)
				}
			}()
			time.Sleep(p.x.Delay)
			if !p.isDead() {
				_ = call(context.WithoutCancel(ctx))
			}
		}()
		return ErrInjected
	case Half:
		if half == nil {
			return ErrInjected
		}
		return errors.Join(ErrInjected, p.watched(ctx, c, half))
	case Timeout:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.released:
			return ErrKilled
		case <-time.After(p.x.Grace):
			return ErrInjected
		}
	case Panic:
		panic(ErrInjected)
	case Cancelled:
		ended, cancel := context.WithCancelCause(ctx)
		cancel(ErrInjected)
		return p.watched(ended, c, call)
	case KilledBefore:
		p.Kill(false)
		return ErrKilled
	case KilledAfter, Rewritten:
		_ = p.watched(ctx, c, call)
		p.Kill(c.kind == Rewritten)
		return ErrKilled
	case Outside:
		if change := p.x.Outside[c.outside]; change != nil {
			change()
		}
	}
	return p.watched(ctx, c, call)
}

// watched calls, and reports a call that goes on for long after its context has ended.
func (p *Process) watched(ctx context.Context, c *entered, call func(ctx context.Context) error) error {
	if c.Class == Edge {
		return call(ctx)
	}
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(p.x.Grace):
			if !p.isDead() {
				p.x.Report("%s does not heed its context: it still runs %s after its end", c.Name, p.x.Grace)
			}
		}
	})()
	return call(ctx)
}

// place is the hook of the steps of one operation.
type place struct {
	p  *Process
	at Point
}

// Hook returns the hook of steps outside of operations.
func (p *Process) Hook() edgehook.Hook { return &place{p: p} }

// Step implements [edgehook.Hook].
func (h *place) Step(ctx context.Context, step string, f func() error) error {
	at := Point{Class: Edge, Name: step, Key: h.at.Key, Shared: h.at.Name == "" || h.at.Class == Batch}
	if h.at.Name != "" {
		at.Name = h.at.Name + ", " + step
	}
	return h.p.Do(ctx, at, func(context.Context) error { return f() }, nil)
}
