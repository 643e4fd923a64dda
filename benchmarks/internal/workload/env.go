// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// Sizes determines how large and how long a run is.
type Sizes struct {
	// Scale multiplies the number of rows; 1 is the size in the workload's name.
	Scale float64
	// Samples multiplies the number of timed inserts of the latency workloads.
	Samples float64
	// Window is how long a workload observes a steady state.
	Window time.Duration
	// Cap is the longest wait for a starved retry.
	Cap time.Duration
	// Settle is how long a system is left alone before it is measured at rest.
	Settle time.Duration
	// Refresh is the refresh interval.
	Refresh time.Duration
	// Slow is the duration of an operation that others must not wait for.
	Slow time.Duration
	// Outage is how long a target is down.
	Outage time.Duration
	// Limit is the longest duration of a run; a longer one fails as stuck.
	Limit time.Duration
}

// Full returns the sizes of a real series.
func Full() Sizes {
	return Sizes{
		Scale: 1, Samples: 1,
		Window: 5 * time.Second, Cap: 10 * time.Second, Settle: 2 * time.Second,
		Refresh: time.Second, Slow: 2 * time.Second, Outage: 10 * time.Second,
		Limit: 5 * time.Minute,
	}
}

// Quick returns the sizes of -quick: a tenth of the rows and of the time.
func Quick() Sizes {
	return Sizes{
		Scale: 0.1, Samples: 0.1,
		Window: time.Second, Cap: time.Second, Settle: 300 * time.Millisecond,
		Refresh: 500 * time.Millisecond, Slow: 500 * time.Millisecond, Outage: 3 * time.Second,
		Limit: time.Minute,
	}
}

// Tiny returns sizes at which the figures mean nothing, but all checks hold.
func Tiny() Sizes {
	return Sizes{
		Scale: 0.001, Samples: 0.01,
		Window: 50 * time.Millisecond, Cap: 150 * time.Millisecond, Settle: 0,
		Refresh: 50 * time.Millisecond, Slow: 20 * time.Millisecond, Outage: 150 * time.Millisecond,
		Limit: 2 * time.Minute,
	}
}

// minimum is the lower limit of a scaled number of rows or samples.
const minimum = 20

// Rows scales a number of rows, or a number of timed inserts that Scale applies to.
func (s Sizes) Rows(full uint64) uint64 { return scaled(full, s.Scale) }

// Inserts scales a number of timed inserts.
func (s Sizes) Inserts(full uint64) uint64 { return scaled(full, s.Samples) }

func scaled(full uint64, by float64) uint64 {
	return min(full, max(minimum, uint64(math.Round(float64(full)*by))))
}

// Env is the environment of a run.
type Env struct {
	Sizes
	// Part names the part of the workload to run; "" for a workload of one part.
	Part string
	// Start starts a contender that reconciles a system; nil if it is a controller.
	Start func(subject.Options) (subject.System, error)
	// StartController starts a contender that is a controller; nil if it is not.
	StartController func() (subject.Controller, error)
	// StartFleet starts a contender that is a fleet; nil if it is not.
	StartFleet func(subject.FleetOptions) (subject.Fleet, error)
	// Profile, if not nil, starts a CPU profile of the first measured section of the run, and returns the
	// function that ends it.
	Profile func() (stop func() error, err error)
}

// with starts a system, passes it to run, and stops it.
func (e *Env) with(ctx context.Context, o subject.Options, run func(subject.System) (Figures, error)) (Figures, error) {
	sys, err := e.Start(o)
	if err != nil {
		return nil, fmt.Errorf("start the contender: %w", err)
	}
	figures, err := run(sys)
	return stopped(ctx, sys, figures, err)
}

// withController starts a controller, passes it to run, and stops it.
func (e *Env) withController(ctx context.Context, run func(subject.Controller) (Figures, error)) (Figures, error) {
	controller, err := e.StartController()
	if err != nil {
		return nil, fmt.Errorf("start the contender: %w", err)
	}
	figures, err := run(controller)
	return stopped(ctx, controller, figures, err)
}

// stopped stops a contender after a run. The error of the run comes before that of the stop.
func stopped(ctx context.Context, contender interface{ Stop(context.Context) error }, figures Figures, err error) (Figures, error) {
	if stopErr := contender.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	return figures, err
}

// stopwatch measures a section. Each reading starts at the section's beginning and replaces the one before.
type stopwatch struct {
	began *instant
	used  usage
}

func (s *stopwatch) read() { s.used = s.began.elapsed() }

// measure runs a section and returns its usage.
func (e *Env) measure(section func() error) (usage, error) {
	return e.observe(func(watch *stopwatch) error {
		err := section()
		watch.read()
		return err
	})
}

// observe runs a section and returns its last reading. It collects garbage first, so that the section does
// not pay for garbage from before.
func (e *Env) observe(section func(*stopwatch) error) (_ usage, err error) {
	collectGarbage()
	if profile := e.Profile; profile != nil {
		e.Profile = nil
		stop, startErr := profile()
		if startErr != nil {
			return usage{}, fmt.Errorf("start the CPU profile: %w", startErr)
		}
		defer func() {
			if stopErr := stop(); err == nil && stopErr != nil {
				err = fmt.Errorf("write the CPU profile: %w", stopErr)
			}
		}()
	}
	watch := stopwatch{began: now()}
	err = section(&watch)
	return watch.used, err
}

// load inserts rows first ... first+n-1 in transactions of writeBatch.
func load(sys subject.System, first, n uint64) error {
	return inBatches(first, n, writeBatch, sys.Insert)
}

// writeBatch is the number of rows the writers write in one transaction.
const writeBatch = 1000

// inBatches calls write for rows first ... first+n-1, size rows at a time.
func inBatches(first, n, size uint64, write func(first, n uint64) error) error {
	for end := first + n; first < end; first += size {
		if err := write(first, min(size, end-first)); err != nil {
			return err
		}
	}
	return nil
}

// loadDone loads rows 0 ... n-1 and waits until all are done.
func loadDone(ctx context.Context, sys subject.System, n uint64) error {
	if err := load(sys, 0, n); err != nil {
		return err
	}
	_, err := sys.AwaitAll(ctx, subject.Done)
	return err
}

// awaitRows waits until rows first ... first+n-1 are of that kind.
func awaitRows(ctx context.Context, sys subject.System, first, n uint64, kind subject.Kind) error {
	for id := first; id < first+n; id++ {
		if err := sys.Await(ctx, id, kind); err != nil {
			return err
		}
	}
	return nil
}

// within waits for an event, at most for a limit, and reports whether it happened. The error is that of ctx.
func within(ctx context.Context, event <-chan struct{}, limit time.Duration) (came bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-event:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// wait waits for an event of the target. The error names what did not happen.
func wait(ctx context.Context, event <-chan struct{}, what string) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waited for %s: %w", what, context.Cause(ctx))
	}
}

// pause lets time pass, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
