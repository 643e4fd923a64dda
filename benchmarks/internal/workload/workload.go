// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"slices"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// Workload is one thing to do to a contender.
type Workload struct {
	// Name is what -workloads and the reports call it.
	Name string
	// About says what is done and measured, in one or two sentences.
	About string
	// Contenders take part, in this order; the others could not do it or would say nothing.
	// The first is the Statekeel that the goals and the chart are about.
	Contenders []string
	// Runs is how often a full series runs each contender.
	Runs int
	// Headline is the metric that the chart shows; "" leaves the workload out of it.
	Headline string
	// DefaultsOnly makes the peer with its default options the one to compare with; else
	// it is whichever of its variants does better.
	DefaultsOnly bool
	// Parts run in processes of their own; nil is one part without a name.
	Parts []string
	// Combine makes one run's figures of its parts' figures, which come in the order of
	// Parts; nil puts them one after the other.
	Combine func(parts []Figures) Figures

	measure func(context.Context, *Env) (Figures, error)
}

// Measure does one run (or one part of it) in this process. The error names the check that
// failed, or what was waited for in vain.
func (w Workload) Measure(ctx context.Context, env Env) (Figures, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, env.Limit,
		fmt.Errorf("the run is stuck: not over after %s", env.Limit))
	defer cancel()
	return w.measure(ctx, &env)
}

// Ours returns the variant of Statekeel that the goals and the chart are about.
func (w Workload) Ours() string { return w.Contenders[0] }

// AgainstPeers returns the variants of the peer of which the better is compared with.
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

// Join makes one run's figures of its parts' figures.
func (w Workload) Join(parts []Figures) Figures {
	if w.Combine != nil {
		return w.Combine(parts)
	}
	return slices.Concat(parts...)
}

const (
	// closeRuns is for what differs by a few percent, which is less than one run differs
	// from the next; manyRuns repeats what is over in a few seconds, fewRuns what watches
	// a window.
	closeRuns = 15
	manyRuns  = 5
	fewRuns   = 3
)

// All returns all workloads, in the order in which they are run and shown.
func All() []Workload {
	return slices.Concat(
		[]Workload{noop("single", false), noop("batch", true), noop10m(), remove(), load15us()},
		[]Workload{failing("10k", 10_000), failing("30k", 30_000), failing("100k", 100_000)},
		[]Workload{failingPass(), parked(), starvation()},
		[]Workload{backToBack(), spaced()},
		[]Workload{statusSet(1), statusSet(2), statusSet(4), statusSet(8)},
		[]Workload{refresh(), refreshBatch(), idle()},
		[]Workload{slowTarget(), stuck64(), headOfLine(), behindBacklog()},
		[]Workload{breaker(), breakerClasses(), blockedOne(), blockedMany()},
		[]Workload{workers(2, subject.Statekeel2), workers(4, subject.Statekeel4)},
		[]Workload{observedNoop()},
		[]Workload{
			request(1, subject.StatekeelRequest, subject.StatekeelRequestAdded, subject.ControllerRuntime),
			request(8, subject.StatekeelRequest8, subject.StatekeelRequestAdded8, subject.ControllerRuntime8),
			overheadOfStepper(), overheadOfStateful(),
			polls(1, subject.StatekeelManaged, subject.Crossplane, subject.CrossplaneCopied),
			polls(8, subject.StatekeelManaged8, subject.Crossplane8, subject.CrossplaneCopied8),
		},
	)
}

// both are the contenders of workloads that the floor cannot do, having no retries and no
// refreshing, and to which a limit on rounds makes no difference.
func both() []string { return []string{subject.Statekeel, subject.Peer} }

// throughput are the contenders of workloads where a limit on rounds could bind.
func throughput() []string {
	return []string{subject.Statekeel, subject.Peer, subject.PeerInf, subject.Floor}
}
