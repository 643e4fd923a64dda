// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// statekeelVariant is Statekeel with something that the peer does not have. Its name says
// what.
type statekeelVariant = variant[reconciler.Option]

func startStatekeel(v statekeelVariant) func(Options) (System, error) {
	return func(o Options) (System, error) { return statekeel.start(o, v) }
}

func withWorkers(n int) statekeelVariant {
	return statekeelVariant{workers: n, options: []reconciler.Option{reconciler.WithConcurrency(n)}}
}

func withBreaker() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{reconciler.WithBreaker(reconciler.Breaker{})}}
}

func bare() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{
		reconciler.WithMetrics(metrics.Discard), reconciler.WithJournal(0, 0),
	}}
}

// BlockedOn is what an operation returns that cannot be done before one of the channels
// closes; reason says what it waits for. Only Statekeel knows what that means: to the
// others it is a failure like any other.
func BlockedOn(reason string, watch ...<-chan struct{}) error {
	return reconciler.Blocked(reason, watch...)
}
