// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// Plan says what to measure.
type Plan struct {
	Shape
	// Quiet is how many changes are made one after another, each once the contender has been idle for Gap.
	Quiet int
	Gap   time.Duration
	// Churn is for how long changes are made, PerSecond of them a second, whether or not the kernel has the one before.
	Churn     time.Duration
	PerSecond float64
	// Limit is how long the kernel may lack something before the run fails.
	Limit time.Duration
}

func (p Plan) check() error {
	switch {
	case p.Quiet < 0 || p.Churn < 0:
		return errors.New("there cannot be less than no changes")
	case p.PerSecond <= 0:
		return errors.New("changes need a rate")
	case p.Gap <= 0 || p.Limit <= p.Gap:
		return errors.New("the gap must be longer than nothing and shorter than the limit")
	case p.Services*p.Endpoints+p.Quiet+p.churned() > maxEndpoints:
		return fmt.Errorf("there can be %d endpoints in all", maxEndpoints)
	}
	return p.Shape.check()
}

// chunk is how many services are applied at once in the first load.
const chunk = 100

// run is the measuring of one contender in one process.
type run struct {
	plan      Plan
	contender Contender
	workload  *Workload
	waiting   *waiting
	watcher   *watcher
	meter     meter
	memory    Memory
}

// begin starts to watch the kernel. changed is how many changes the workload has had.
func begin(plan Plan, contender Contender, changed int) (*run, error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	r := &run{plan: plan, contender: contender, workload: NewWorkload(plan.Shape), waiting: newWaiting(plan.Shape)}
	for range changed {
		r.workload.Change()
	}
	var err error
	if r.watcher, err = watch(contender.Layout(), r.waiting); err != nil {
		return nil, err
	}
	r.meter.threads = append(r.meter.threads, r.watcher.thread)
	// What the preparation took is given back, so that the contender does not seem smaller because it reuses that.
	debug.FreeOSMemory()
	now, _, err := resident()
	r.memory.Before = mebibytes(now)
	return r, err
}

// end stops the contender.
func (r *run) end() error { return errors.Join(r.contender.Stop(), r.watcher.stop()) }

// load starts the contender and gives it all services. If the kernel has them all from an earlier process, nothing has
// to reach it.
func (r *run) load(ctx context.Context, kernelHasAll bool) (*Load, error) {
	if kernelHasAll {
		if _, err := list(r.contender.Layout(), r.workload); err != nil {
			return nil, fmt.Errorf("before the start: %w", err)
		}
	}
	before, _, err := r.watcher.soFar()
	begun, readErr := r.meter.read()
	if err := errors.Join(err, readErr); err != nil {
		return nil, err
	}

	start := time.Now()
	if err := r.contender.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the contender: %w", err)
	}
	if !kernelHasAll {
		r.waiting.everything(r.workload, time.Now())
	}
	var first, last time.Time
	for from := 0; from < r.plan.Services; from += chunk {
		services := make([]Service, 0, chunk)
		for i := from; i < min(from+chunk, r.plan.Services); i++ {
			services = append(services, r.workload.Service(i))
		}
		last = time.Now()
		if from == 0 {
			first = last
		}
		if err := r.contender.Apply(services); err != nil {
			return nil, fmt.Errorf("apply services: %w", err)
		}
	}
	if err := r.contender.Complete(ctx); err != nil {
		return nil, fmt.Errorf("complete the services: %w", err)
	}
	believed := time.Now()
	load := &Load{Believed: millis(believed.Sub(last)), BelievedFromStart: millis(believed.Sub(start))}
	has, err := r.waiting.wait(ctx, r.plan.Limit)
	if err != nil {
		return nil, err
	}
	r.waiting.take()
	if !kernelHasAll {
		load.Kernel, load.KernelFromFirst = millis(has.Sub(last)), millis(has.Sub(first))
	}
	if err := r.idle(ctx); err != nil {
		return nil, err
	}
	writes, wrote, err := r.watcher.soFar()
	after, readErr := r.meter.read()
	now, _, memErr := resident()
	if err := errors.Join(err, readErr, memErr); err != nil {
		return nil, err
	}
	load.Writes, load.CPU = writes.minus(before), millis(after.cpu-begun.cpu)
	load.Others = after.others(begun)
	if load.Writes != (Writes{}) {
		load.LastWrite = millis(wrote.Sub(last))
	}
	r.memory.Loaded = mebibytes(now)
	load.After, err = list(r.contender.Layout(), r.workload)
	return load, err
}

// quiet makes one change after another, each when nothing else is going on.
func (r *run) quiet(ctx context.Context) (*Changes, error) {
	return r.changes(ctx, func(c *Changes) error {
		for range r.plan.Quiet {
			if err := r.change(time.Now()); err != nil {
				return err
			}
			if _, err := r.waiting.wait(ctx, r.plan.Limit); err != nil {
				return err
			}
			if err := r.idle(ctx); err != nil {
				return err
			}
			c.Count++
		}
		return nil
	})
}

// churn makes changes at their times, whether or not the kernel has the ones before.
func (r *run) churn(ctx context.Context) (*Changes, error) {
	return r.changes(ctx, func(c *Changes) error {
		c.PerSecond = r.plan.PerSecond
		start, returned := time.Now(), time.Time{}
		for c.Count < r.plan.churned() {
			due := start.Add(time.Duration(float64(c.Count) / r.plan.PerSecond * float64(time.Second)))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
			now := time.Now()
			c.Late = max(c.Late, millis(now.Sub(due)))
			// A contender that keeps the caller beyond the moment of the next change makes that one wait. A machine that
			// wakes the caller late does not.
			since := now
			if returned.After(due) {
				since = due
			}
			if err := r.change(since); err != nil {
				return err
			}
			returned = time.Now()
			c.Count++
		}
		if _, err := r.waiting.wait(ctx, r.plan.Limit); err != nil {
			return err
		}
		return r.idle(ctx)
	})
}

// churned is how many changes churn makes.
func (p Plan) churned() int { return int(p.Churn.Seconds() * p.PerSecond) }

// changes measures what makes changes and waits until the kernel has them and the contender is idle.
func (r *run) changes(ctx context.Context, measured func(*Changes) error) (*Changes, error) {
	idle, err := r.meter.read()
	if err != nil {
		return nil, err
	}
	if err := r.idle(ctx); err != nil {
		return nil, err
	}
	before, _, err := r.watcher.soFar()
	begun, readErr := r.meter.read()
	if err := errors.Join(err, readErr); err != nil {
		return nil, err
	}

	var c Changes
	if err := measured(&c); err != nil {
		return nil, err
	}

	writes, _, err := r.watcher.soFar()
	after, readErr := r.meter.read()
	if err := errors.Join(err, readErr); err != nil {
		return nil, err
	}
	times, passed := r.waiting.take()
	if len(times) != c.Count {
		return nil, fmt.Errorf("%d of %d changes were measured", len(times), c.Count)
	}
	c.latencies(times)
	c.Passed = passed
	c.Writes = writes.minus(before)
	c.CPUEach = millis((after.cpu - begun.cpu) / time.Duration(max(c.Count, 1)))
	c.Others = after.others(begun)
	c.Idle = millis(time.Duration(float64(begun.cpu-idle.cpu) / begun.at.Sub(idle.at).Seconds()))
	c.After, err = list(r.contender.Layout(), r.workload)
	return &c, err
}

// change makes a change that the kernel is to have as soon as possible after a moment.
func (r *run) change(since time.Time) error {
	service, removed, added := r.workload.Change()
	r.waiting.endpoint(added, removed, since)
	if err := r.contender.Apply([]Service{r.workload.Service(service)}); err != nil {
		return fmt.Errorf("apply a change: %w", err)
	}
	return nil
}

// idle waits until nothing has been written for a while.
func (r *run) idle(ctx context.Context) error {
	for {
		before, _, err := r.watcher.soFar()
		if err != nil {
			return err
		}
		if err := sleep(ctx, r.plan.Gap); err != nil {
			return err
		}
		if after, _, _ := r.watcher.soFar(); after == before {
			return nil
		}
	}
}

// finish reads the memory at the end.
func (r *run) finish() (*Memory, error) {
	now, most, err := resident()
	r.memory.Now, r.memory.Most = mebibytes(now), mebibytes(most)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	r.memory.Heap = mebibytes(int64(stats.HeapAlloc))
	return &r.memory, err
}

func mebibytes(n int64) float64 { return float64(n*10>>20) / 10 }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
