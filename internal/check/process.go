// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/edgehook"
	"github.com/statekeel/statekeel/internal/outcome"
)

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
	if at.ofOneKey() {
		if slices.Contains(x.Refused, at.Name) {
			x.refused[at.Key] = true
		}
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
	if slices.Contains(x.Refused, c.Name) && c.kind != Lost && succeeded(err) {
		x.wrong = append(x.wrong, fmt.Sprintf("%s succeeds, although what it makes is somebody else's", c.Name))
	}
	if c.ofOneKey() {
		c.p.running[c.Key]--
	}
}

// succeeded reports whether the error of an operation is a success: even if it asks to be called again.
func succeeded(err error) bool {
	next := outcome.Of(err)
	return err == nil || next != nil && next.Kind == core.DoneAgain
}

// failed reports whether the error of an operation is a failure: not if it waits.
func failed(err error) bool {
	next := outcome.Of(err)
	return !succeeded(err) && (next == nil || next.Kind != core.BlockedOn)
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
	if p.IsDead() {
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

// IsDead reports whether the process was killed.
func (p *Process) IsDead() bool {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	return p.dead
}

func (p *Process) act(ctx context.Context, c *entered, call, half func(ctx context.Context) error) error {
	if c.Class != Edge {
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		defer end(nil)
		ctx = edgehook.With(ctx, &place{p: p, at: c.Point, end: end})
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
			if !p.IsDead() {
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
		case <-time.After(p.x.Lapse):
			if in, ok := edgehook.From(ctx).(*place); ok && in.end != nil {
				in.end(context.DeadlineExceeded) // of the whole operation
			}
			return errors.Join(ErrInjected, context.DeadlineExceeded)
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
			if !p.IsDead() {
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
	// end ends the context of the operation.
	end context.CancelCauseFunc
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
