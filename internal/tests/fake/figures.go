// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package fake

import "github.com/statekeel/statekeel/metrics"

// Source is a [metrics.Source] that always returns the same figures.
type Source metrics.Figures

// Figures implements [metrics.Source].
func (s *Source) Figures() metrics.Figures { return metrics.Figures(*s) }

// Histogram returns one of the values.
func Histogram(values ...float64) (h metrics.Histogram) {
	for _, v := range values {
		h.Observe(v)
	}
	return h
}

// Figures returns figures that all differ. Only OldestUnapplied is zero.
func Figures() metrics.Figures {
	return metrics.Figures{
		Updates: metrics.OperationFigures{
			Done: 101, Failed: 102, Terminal: 103, Blocked: 104, Requeued: 105, Durations: Histogram(1),
		},
		Deletes: metrics.OperationFigures{
			Done: 111, Failed: 112, Terminal: 113, Blocked: 114, Requeued: 115, Durations: Histogram(2),
		},
		Retries: 121, Released: 122, Refreshes: 123, Latency: Histogram(4), InForce: Histogram(256),
		Panics: 131, Timeouts: 132, BreakerOpenings: 134,
		Rounds: Histogram(8), CommitSizes: Histogram(16), CommitDurations: Histogram(32),
		Lost: 141, Conflicts: 142,
		Prunes: Histogram(64, 128), PruneErrors: 151, Listed: 152,
		Adopted: 154, Different: 155, Missing: 156, Orphans: 157, Repairs: 158,
		Unset: 161, Objects: 171,
		Calls: []metrics.StateCount{{State: "pods", Count: 181}}, Edges: 182, EdgesToAll: 183,
		States: []metrics.StateCount{{State: "retry", Count: 172}, {State: "in flight", Count: 179}},
		Unseen: 173, Failing: 174, Blocked: 175, Unheld: 178, BreakersOpen: 176, Stuck: 177, Paused: true,
	}
}
