// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// Workload is one measurement of contenders: what to do to each, and what to measure.
type Workload struct {
	// Name is the name in -workloads and in the reports.
	Name string
	// About describes what is done and measured, in one or two sentences.
	About string
	// Contenders take part, in this order; the others do not support the workload or would add nothing. The
	// first is the variant of Statekeel for the goals and the chart.
	Contenders []string
	// Runs is the number of runs of each contender in a full series.
	Runs int
	// Headline is the metric in the chart; "" leaves the workload out of it.
	Headline string
	// DefaultsOnly selects the peer with default options for comparisons; otherwise the better of its
	// variants is used.
	DefaultsOnly bool
	// Parts run in processes of their own; nil is one part without a name.
	Parts []string
	// Combine returns one run's figures from its parts' figures, which are in the order of Parts; nil
	// concatenates them.
	Combine func(parts []Figures) Figures

	measure func(context.Context, *Env) (Figures, error)
}

// Measure does one run, or one part of it, in this process. The error names the check that failed, or the
// wait that did not end.
func (w Workload) Measure(ctx context.Context, env Env) (Figures, error) {
	stuck := fmt.Errorf("the run is stuck: not over after %s", env.Limit)
	deadline := time.Now().Add(env.Limit)
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, stuck)
	defer cancel()
	figures, err := w.measure(ctx, &env)
	// A run can end before the timer of its limit has fired.
	if err == nil && time.Now().After(deadline) {
		return nil, stuck
	}
	return figures, err
}

// Ours returns the variant of Statekeel that the goals and the chart are about.
func (w Workload) Ours() string { return w.Contenders[0] }

// AgainstPeers returns the variants of the peer; comparisons use the better one.
func (w Workload) AgainstPeers() []string {
	if w.DefaultsOnly {
		return []string{subject.Peer}
	}
	return []string{subject.Peer, subject.PeerInf}
}

// AllParts returns Parts, or the one nameless part.
func (w Workload) AllParts() []string {
	if w.Parts == nil {
		return []string{""}
	}
	return w.Parts
}

// Join returns one run's figures from its parts' figures.
func (w Workload) Join(parts []Figures) Figures {
	if w.Combine != nil {
		return w.Combine(parts)
	}
	return slices.Concat(parts...)
}

const (
	// fewRuns show the spread of a ratio; closeRuns are for differences of a few percent, less than the
	// variation between runs.
	fewRuns   = 3
	closeRuns = 5
)

// All returns all workloads, in the order in which they are run and shown.
func All() []Workload {
	return slices.Concat(
		[]Workload{noop("single", false), noop("batch", true), noop10m(), remove(), load15us()},
		[]Workload{noopBeside("single", false), noopBeside("batch", true), noopBesideWorkers()},
		[]Workload{failing100k(), failingPass(), parked(), starvation()},
		[]Workload{backToBack(), spaced()},
		[]Workload{statusSet(1), statusSet(8), reconcilersBeside()},
		[]Workload{refresh(), refreshBatch(), idle()},
		[]Workload{restartEqual(), restartOnePercent(), resync()},
		[]Workload{slowTarget(), stuck64(), headOfLine(), behindBacklog()},
		[]Workload{breaker(), blocked()},
		[]Workload{workers()},
		[]Workload{observedNoop()},
		[]Workload{
			request(1, subject.StatekeelRequest, subject.StatekeelRequestAdded, subject.ControllerRuntime),
			request(8, subject.StatekeelRequest8, subject.StatekeelRequestAdded8, subject.ControllerRuntime8),
			overheadOfStepper(), overheadOfStateful(),
			polls(1, subject.StatekeelManaged, subject.Crossplane, subject.CrossplaneCopied),
			polls(8, subject.StatekeelManaged8, subject.Crossplane8, subject.CrossplaneCopied8),
			deriveBest(), fleet1000(), relist(),
		},
	)
}

// both are the contenders of workloads that the floor does not support, as it has no retries and no
// refreshing, and in which a limit on rounds makes no difference.
func both() []string { return []string{subject.Statekeel, subject.Peer} }

// bothLedgers are those, and Statekeel with the ledger beside the table.
func bothLedgers() []string {
	return []string{subject.Statekeel, subject.StatekeelBeside, subject.Peer}
}

// throughput are the contenders of workloads where a limit on rounds could matter.
func throughput() []string {
	return []string{subject.Statekeel, subject.Peer, subject.PeerInf, subject.Floor}
}
