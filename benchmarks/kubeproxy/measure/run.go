// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Plan says what to measure.
type Plan struct {
	Shape
	// Name is the name of the contender in the results.
	Name string
	// Quiet is how many changes are made one after another, each once the contender has been idle for Gap.
	Quiet int
	Gap   time.Duration
	// Churn is for how long changes are made, PerSecond of them a second, whether or not the kernel has the one before.
	Churn     time.Duration
	PerSecond float64
	// Turns: changes are made for Churn at each line of the standard input, until it ends.
	Turns bool
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

// churned is how many changes churn makes.
func (p Plan) churned() int { return int(p.Churn.Seconds() * p.PerSecond) }

// chunk is how many services are applied at once in the first load.
const chunk = 100

// run is the measuring of one contender in one process.
type run struct {
	plan      Plan
	out       io.Writer // of results, for benchstat
	contender Contender
	workload  *Workload
	waiting   *waiting
	watcher   *watcher
	meter     meter
}

// begin starts to watch the kernel. changed is how many changes the workload has had.
func begin(plan Plan, out io.Writer, contender Contender, changed int) (*run, error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	r := &run{plan: plan, out: out, contender: contender, workload: NewWorkload(plan.Shape), waiting: newWaiting(plan.Shape)}
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
	return r, nil
}

// end stops the contender.
func (r *run) end() error { return errors.Join(r.contender.Stop(), r.watcher.stop()) }

// metric is a figure of a result.
type metric struct {
	value float64
	unit  string
}

// result prints a line of benchstat's format.
func (r *run) result(phase string, metrics ...metric) {
	fmt.Fprintf(r.out, "BenchmarkServices/of=%dx%d/%s/impl=%s 1", r.plan.Services, r.plan.Endpoints, phase, r.plan.Name)
	for _, m := range metrics {
		fmt.Fprintf(r.out, " %.5g %s", m.value, m.unit)
	}
	fmt.Fprintln(r.out)
}

// taken is what was taken since a moment.
type taken struct {
	cpu    time.Duration
	others float64 // share of the machine
	writes Writes
}

// account begins to count, and returns the function that tells what was taken since.
func (r *run) account() (since func() (taken, error), err error) {
	wrote, err := r.watcher.soFar()
	begun, readErr := r.meter.read()
	return func() (taken, error) {
		writes, err := r.watcher.soFar()
		now, readErr := r.meter.read()
		return taken{now.cpu - begun.cpu, now.others(begun), writes.minus(wrote)}, errors.Join(err, readErr)
	}, errors.Join(err, readErr)
}

// load starts the contender and gives it all services. If the kernel has them all from an earlier process, nothing has
// to reach it.
func (r *run) load(ctx context.Context, kernelHasAll bool) (taken, error) {
	if kernelHasAll {
		if err := list(r.contender.Layout(), r.workload); err != nil {
			return taken{}, fmt.Errorf("before the start: %w", err)
		}
	}
	since, err := r.account()
	if err != nil {
		return taken{}, err
	}
	start := time.Now()
	if err := r.contender.Start(ctx); err != nil {
		return taken{}, fmt.Errorf("start the contender: %w", err)
	}
	if !kernelHasAll {
		r.waiting.everything(r.workload, time.Now())
	}
	var last time.Time // input
	for from := 0; from < r.plan.Services; from += chunk {
		services := make([]Service, 0, chunk)
		for i := from; i < min(from+chunk, r.plan.Services); i++ {
			services = append(services, r.workload.Service(i))
		}
		last = time.Now()
		if err := r.contender.Apply(services); err != nil {
			return taken{}, fmt.Errorf("apply services: %w", err)
		}
	}
	if err := r.contender.Complete(ctx); err != nil {
		return taken{}, fmt.Errorf("complete the services: %w", err)
	}
	took := time.Since(start)
	has, err := r.waiting.wait(ctx, r.plan.Limit)
	if err != nil {
		return taken{}, err
	}
	r.waiting.take()
	if err := r.idle(ctx); err != nil {
		return taken{}, err
	}
	t, err := since()
	rss, memErr := resident()
	if err := errors.Join(err, memErr, list(r.contender.Layout(), r.workload)); err != nil {
		return taken{}, err
	}
	phase := "restart"
	if !kernelHasAll {
		phase, took = "first", has.Sub(last)
	}
	r.result(phase, metric{float64(took), "ns"}, metric{float64(t.cpu), "CPU-ns"}, metric{float64(rss) / (1 << 20), "RSS-MiB"},
		metric{float64(t.writes.Objects), "writes"}, metric{100 * t.others, "others-%"})
	return t, nil
}

// quiet makes one change after another, each when nothing else is going on.
func (r *run) quiet(ctx context.Context) (taken, error) {
	return r.changes(ctx, "change", r.plan.Quiet, func() error {
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
		}
		return nil
	})
}

// churn makes changes at their times, whether or not the kernel has the ones before.
func (r *run) churn(ctx context.Context) (taken, error) {
	return r.changes(ctx, fmt.Sprintf("changes/s=%g", r.plan.PerSecond), r.plan.churned(), func() error {
		start, returned := time.Now(), time.Time{}
		for i := range r.plan.churned() {
			due := start.Add(time.Duration(float64(i) / r.plan.PerSecond * float64(time.Second)))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
			// A contender that keeps the caller beyond the moment of the next change makes that one wait. A machine that
			// wakes the caller late does not.
			since := time.Now()
			if returned.After(due) {
				since = due
			}
			if err := r.change(since); err != nil {
				return err
			}
			returned = time.Now()
		}
		if _, err := r.waiting.wait(ctx, r.plan.Limit); err != nil {
			return err
		}
		return r.idle(ctx)
	})
}

// changes measures n changes until the kernel has them and the contender is idle.
func (r *run) changes(ctx context.Context, phase string, n int, make func() error) (taken, error) {
	if n == 0 {
		return taken{}, nil
	}
	if err := r.idle(ctx); err != nil {
		return taken{}, err
	}
	if r.plan.Turns {
		runtime.GC() // so that each turn has as many collections, mostly none
	}
	before := allocated()
	since, err := r.account()
	if err != nil {
		return taken{}, err
	}
	if err := make(); err != nil {
		return taken{}, err
	}
	t, err := since()
	bytes := allocated() - before
	if err := errors.Join(err, list(r.contender.Layout(), r.workload)); err != nil {
		return taken{}, err
	}
	times := r.waiting.take()
	if len(times) != n {
		return taken{}, fmt.Errorf("%d of %d changes were measured", len(times), n)
	}
	r.result(phase, metric{float64(quantile(times, 0.5)), "p50-ns"}, metric{float64(quantile(times, 0.99)), "p99-ns"},
		metric{float64(t.cpu) / float64(n), "CPU-ns/change"}, metric{float64(t.writes.Objects) / float64(n), "writes/change"},
		metric{float64(bytes) / float64(n), "B/change"}, metric{100 * t.others, "others-%"})
	return t, nil
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
		before, err := r.watcher.soFar()
		if err != nil {
			return err
		}
		if err := sleep(ctx, r.plan.Gap); err != nil {
			return err
		}
		if after, _ := r.watcher.soFar(); after == before {
			return nil
		}
	}
}

// quantile returns the smallest time that a share of all does not exceed. It sorts them.
func quantile(times []time.Duration, share float64) time.Duration {
	slices.Sort(times)
	return times[max(0, int(math.Ceil(share*float64(len(times))))-1)]
}

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
