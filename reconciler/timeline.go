// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/statekeel/statekeel/internal/core"
)

// timelineSeconds is for how long a timeline goes back.
const timelineSeconds = 600

// timeline remembers how a loop stood in each of the last seconds.
type timeline struct {
	// seconds are a ring: second s of the loop's clock is at s modulo its length. nil
	// before the first, which is first; last is the latest that there is.
	seconds     []second
	first, last int
}

// second is a [Sample], as it is kept.
type second struct{ pending, inFlight, failing, blocked, operations, failures, rounds int32 }

// add counts what a round did, and notes how the loop stands since.
func (t *timeline) add(at time.Duration, s *roundStanding, operations, failures int) {
	now := t.reach(int(at / time.Second))
	now.pending = int32(s.unseen + s.counts[core.Ready] + s.counts[core.Queued] +
		s.counts[core.Awaited] + s.counts[core.Held] + s.counts[core.Paused])
	now.inFlight = int32(s.counts[core.InFlight])
	now.failing, now.blocked = int32(s.failing), int32(s.blocked)
	now.operations += int32(operations)
	now.failures += int32(failures)
	if operations > 0 {
		now.rounds++
	}
}

// reach returns the given second, which is the last or a later one. Those in between were
// as the one before, with nothing done in them.
func (t *timeline) reach(s int) *second {
	if t.seconds == nil {
		t.seconds = make([]second, timelineSeconds)
		t.first, t.last = s, s
	}
	idle := *t.at(t.last)
	idle.operations, idle.failures, idle.rounds = 0, 0, 0
	for t.last = max(t.last, s-timelineSeconds); t.last < s; {
		t.last++
		*t.at(t.last) = idle
	}
	return t.at(t.last)
}

func (t *timeline) at(s int) *second { return &t.seconds[s%timelineSeconds] }

// rates returns how much was done a second in the ten seconds up to a time.
func (t *timeline) rates(at time.Duration) (operations, failures, rounds float64) {
	const seconds = 10
	if t.seconds == nil {
		return 0, 0, 0
	}
	s := int(at / time.Second)
	t.reach(s)
	n := min(seconds, s-t.first+1)
	for i := range n {
		one := t.at(s - i)
		operations += float64(one.operations)
		failures += float64(one.failures)
		rounds += float64(one.rounds)
	}
	of := float64(n)
	return operations / of, failures / of, rounds / of
}

// Timeline returns how the loop stood in each of the last ten minutes' seconds, the oldest
// first; fewer if it has not run for so long, none before it runs.
func (l *Loop[Obj]) Timeline() []Sample {
	if !l.running.Load() {
		return nil
	}
	b := &l.book
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.timeline
	if t.seconds == nil {
		return nil
	}
	s := int(l.now() / time.Second)
	t.reach(s)
	from := max(t.first, s-timelineSeconds+1)
	samples := make([]Sample, 0, s-from+1)
	for ; from <= s; from++ {
		one := t.at(from)
		samples = append(samples, Sample{
			At:      l.timeOf(time.Duration(from) * time.Second),
			Pending: int(one.pending), InFlight: int(one.inFlight),
			Failing: int(one.failing), Blocked: int(one.blocked),
			Operations: int(one.operations), Failures: int(one.failures),
		})
	}
	return samples
}
