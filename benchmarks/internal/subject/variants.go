// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// statekeelVariant is Statekeel with something that the peer does not have. Its name says
// what.
type statekeelVariant = variant[reconciler.Option]

func startStatekeel(v statekeelVariant) func(Options) (System, error) {
	return func(o Options) (System, error) {
		v := v
		if o.Timeout != 0 {
			v.options = slices.Concat(v.options,
				[]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout, s.MaxStuck = o.Timeout, o.MaxStuck })})
		}
		return statekeel.start(o, v)
	}
}

func withWorkers(n int) statekeelVariant {
	return statekeelVariant{workers: n, options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}}
}

func withBreaker() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{reconciler.WithBreaker(reconciler.Breaker{})}}
}

// withClasses holds back what failed with an error of a class, from the first such error on and
// for as long as a run takes: it is not probed, so that what is measured is not the probes.
func withClasses() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{reconciler.WithBreaker(reconciler.Breaker{
		Failures: 1, MinInterval: unprobed, MaxInterval: unprobed, ByClass: true,
	})}}
}

// unprobed is an interval of probes that no run lives to see the end of.
const unprobed = time.Hour

func bare() statekeelVariant {
	return statekeelVariant{options: []reconciler.Option{
		reconciler.WithMetrics(metrics.Discard), reconciler.WithJournal(0, 0),
	}}
}

// FailedWith is what an operation returns that failed with an error of a class, a name without
// digits. Only [StatekeelClasses] knows what that means: to the others it is a failure like any
// other.
func FailedWith(class string) error { return fmt.Errorf("%q does not answer", class) }

// BlockedOn is what an operation returns that cannot be done before one of the channels
// closes; reason says what it waits for. Only Statekeel knows what that means: to the
// others it is a failure like any other.
func BlockedOn(reason string, watch ...<-chan struct{}) error {
	return reconciler.Blocked(reason, watch...)
}
