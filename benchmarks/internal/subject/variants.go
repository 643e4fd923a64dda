// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"slices"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// statekeelVariant is Statekeel with a feature that the peer lacks. The contender's name says which.
type statekeelVariant = variant[reconciler.Option]

func startStatekeel(v statekeelVariant) func(Options) (System, error) {
	return func(o Options) (System, error) { return statekeel.start(o, withDeadline(v, o)) }
}

// withDeadline adds the deadline of the operations to a variant.
func withDeadline(v statekeelVariant, o Options) statekeelVariant {
	if o.Timeout != 0 {
		v.options = slices.Concat(v.options,
			[]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = o.Timeout })})
	}
	return v
}

func withWorkers(n int) statekeelVariant {
	return statekeelVariant{workers: n, options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}}
}

func withBreaker() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = 10 })}}
}

func bare() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{reconciler.WithMetrics(metrics.Discard)}}
}

// BlockedOn returns the error of an operation that cannot succeed before one of the channels closes; reason
// says what it waits for. Only Statekeel understands it; for the others it is a failure like any other.
func BlockedOn(reason string, watch ...<-chan struct{}) error {
	return reconciler.Blocked(reason, watch...)
}
