// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// Run is one run of one part of a workload by one contender.
type Run struct {
	Workload  string         `json:"workload"`
	Contender string         `json:"contender"`
	Part      string         `json:"part,omitempty"`
	Sizes     workload.Sizes `json:"sizes"`
	// Profile is the file that gets the CPU profile; "" for none.
	Profile string `json:"profile,omitempty"`
}

func (r Run) String() string {
	s := r.Workload + " by " + r.Contender
	if r.Part != "" {
		s += " (" + r.Part + ")"
	}
	return s
}

// Execute does one run and returns its figures.
type Execute func(context.Context, Run) (workload.Figures, error)

// Plan is a series to be run.
type Plan struct {
	// Workloads are run in this order.
	Workloads []workload.Workload
	// Contenders take part, each in the workloads that name it.
	Contenders []string
	// Runs is how often each contender runs each workload; 0 is as often as the workload
	// says.
	Runs int
	// Sizes are those of every run.
	Sizes workload.Sizes
	// Profile returns the file for the CPU profile of a run; nil for no profiles. Only the first repetition
	// is profiled: each contender has one profile for each part of a workload.
	Profile func(Run) string
	// Execute does the runs, one at a time.
	Execute Execute
	// Progress, if not nil, is called before each run, and after it with its duration.
	Progress func(run Run, repetition, of int, took time.Duration, done bool)
}

// Run runs the series and passes on the result of each workload as soon as it is complete. It stops at the
// first run that fails: figures beside a failed check are worthless.
func (p Plan) Run(ctx context.Context, result func(*Result) error) error {
	for _, w := range p.Workloads {
		contenders := p.contenders(w)
		if len(contenders) == 0 {
			continue
		}
		r := newResult(w, contenders)
		repetitions := p.runs(w)
		for repetition := range repetitions {
			for _, contender := range contenders {
				figures, err := p.once(ctx, w, contender, repetition, repetitions)
				if err != nil {
					return err
				}
				r.add(contender, figures)
			}
		}
		if err := result(r); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) runs(w workload.Workload) int {
	if p.Runs != 0 {
		return p.Runs
	}
	return w.Runs
}

// contenders returns the plan's contenders that take part in w, in the order of w.
func (p Plan) contenders(w workload.Workload) []string {
	var taking []string
	for _, name := range w.Contenders {
		if slices.Contains(p.Contenders, name) {
			taking = append(taking, name)
		}
	}
	return taking
}

// once does one repetition: all parts, each in a process of its own.
func (p Plan) once(ctx context.Context, w workload.Workload, contender string, repetition, of int) (workload.Figures, error) {
	var parts []workload.Figures
	for _, part := range w.AllParts() {
		run := Run{Workload: w.Name, Contender: contender, Part: part, Sizes: p.Sizes}
		if p.Profile != nil && repetition == 0 {
			run.Profile = p.Profile(run)
		}
		begin := time.Now()
		p.progress(run, repetition, of, 0, false)
		figures, err := p.Execute(ctx, run)
		if err != nil {
			return nil, fmt.Errorf("%s, run %d of %d: %w", run, repetition+1, of, err)
		}
		p.progress(run, repetition, of, time.Since(begin), true)
		parts = append(parts, figures)
	}
	return w.Join(parts), nil
}

func (p Plan) progress(run Run, repetition, of int, took time.Duration, done bool) {
	if p.Progress != nil {
		p.Progress(run, repetition+1, of, took, done)
	}
}
