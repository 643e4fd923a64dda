// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/timeline"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// forTimeline returns what a timeline has of a standing.
func (s *roundStanding) forTimeline() timeline.Standing {
	pending := s.unseen + s.counts[core.Ready] + s.counts[core.Queued] +
		s.counts[core.Unseen] + s.counts[core.Held] + s.counts[core.Paused]
	return timeline.Standing{
		Pending: int32(pending), InFlight: int32(s.counts[core.InFlight]),
		Failing: int32(s.failing), Blocked: int32(s.blocked),
	}
}

// Timeline returns how the loop stood in each of the last ten minutes' seconds, the oldest
// first; fewer if it has not run for so long, none before it runs.
func (l *Loop[Obj]) Timeline() []inspect.Sample {
	if !l.running.Load() {
		return nil
	}
	b := &l.book
	b.mu.Lock()
	seconds := b.timeline.Seconds(l.now())
	b.mu.Unlock()
	if seconds == nil {
		return nil
	}
	samples := make([]inspect.Sample, len(seconds))
	for i, s := range seconds {
		samples[i] = inspect.Sample{
			At:      l.timeOf(s.At),
			Pending: int(s.Pending), InFlight: int(s.InFlight), Failing: int(s.Failing), Blocked: int(s.Blocked),
			Operations: int(s.Operations), Failures: int(s.Failures),
		}
	}
	return samples
}
