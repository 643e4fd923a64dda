// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/timeline"
)

// state is the state of a loop at one moment between two rounds. It never changes: the loop publishes
// the next one, and readers of any goroutine neither lock nor copy it.
type state struct {
	// health is what health is told. It also has the counts of failing and blocked objects and of open
	// breakers, the pause that the loop has applied, and the last failure of a prune.
	health health.Condition
	// counts and lanes have the number of keys for each state, and of ready keys for each lane.
	counts [core.NumStates]int
	lanes  [core.NumLanes]int
	// observed is the revision up to which the loop has read the table, attempted the one up to which
	// every change was attempted. passed is about how many changes after observed need no reading.
	// catchingUp: some of the changes after observed are read.
	observed, attempted statedb.Revision
	passed              int
	catchingUp          bool
	// low is the lowest revision that is not applied, oldest is when it was written; zero if there is
	// none.
	low    statedb.Revision
	oldest time.Time
	// nextPrune is zero if no prune is due.
	nextPrune time.Time
	// unset counts the changes of rows without a status, openings how often a breaker opened.
	unset, openings uint64
	// breakers is never nil.
	breakers *breakers
}

// breakers describes the open breakers.
type breakers struct {
	// lines has a line for each of the first few, in the order of their classes. So the cost does not
	// depend on how many are open.
	lines []string
	// all is the breaker for all errors; nil unless it is open.
	all *core.OpenBreaker
}

// publishState publishes the state of the loop, and returns it. If nothing has changed, that is the
// last one, so that an idle pass allocates nothing.
func (r *runner[Obj]) publishState() *state {
	last, txn := r.stats.state.Load(), r.rows.DB.ReadTxn()
	if r.torn {
		return last
	}
	observed := r.observer.Revision()
	s := state{
		health: health.Condition{
			Objects: r.rows.Table.NumObjects(txn), Failing: r.core.NumFailing(), Blocked: r.core.NumBlocked(),
			Paused: r.core.Count(core.Paused), PausedWhole: r.paused.whole, PruneFailure: r.pruner.Failure(),
			Failures: r.core.FailureVersion(), Breakers: r.core.NumOpenBreakers(), BreakerChanges: r.core.OpenBreakersVersion(),
		},
		counts: r.core.Counts(), lanes: r.core.LaneSizes(),
		observed: observed, attempted: max(last.attempted, r.core.Attempted(observed)),
		passed: r.observer.Skippable(), catchingUp: r.observer.CatchingUp(),
		low: r.core.LowWatermark(), oldest: last.oldest,
		unset: r.observer.Unset(), openings: r.core.BreakerOpenings(), breakers: last.breakers,
	}
	s.health.Stuck, s.health.StuckChanges, s.health.NoWorker = r.workers.NumStuck()
	if s.low != last.low {
		s.oldest = time.Time{}
		if obj, wanted, ok := r.core.Oldest(); ok {
			s.oldest = r.view.writtenAt(obj, s.low, wanted)
		}
	}
	if at, planned := r.pruner.Next(); planned {
		s.nextPrune = r.timeOf(at)
	}
	// The breaker for all errors changes its next probe without a new version.
	if s.health.BreakerChanges != last.health.BreakerChanges || r.core.BreakerOpen() {
		s.breakers = r.openBreakers()
	}
	if s == *last {
		return last
	}
	next := new(state)
	*next = s
	r.stats.state.Store(next)
	return next
}

// openBreakers describes the open breakers of the core.
func (r *runner[Obj]) openBreakers() *breakers {
	open := r.core.OpenBreakers(health.MaxExamples)
	b := &breakers{lines: make([]string, len(open))}
	for i := range open {
		o := &open[i]
		if o.Class == "" {
			b.all = o
		}
		b.lines[i] = fmt.Sprintf("breaker%s open since %s: %s", ofClass(o), r.timeOf(o.Since).Format(time.RFC3339), text.Printable(o.Failure))
	}
	return b
}

// ofClass returns the text that names the class of a breaker; empty for the breaker for all errors.
func ofClass(b *core.OpenBreaker) string {
	if b.Class == "" {
		return ""
	}
	return fmt.Sprintf(" for %q", b.Class)
}

// breakersOmitted returns how many breakers are open that have no line.
func (s *state) breakersOmitted() int { return s.health.Breakers - len(s.breakers.lines) }

// breakerLines returns the lines of the open breakers, and one that counts those without a line.
func (s *state) breakerLines() []string {
	lines := s.breakers.lines
	if n := s.breakersOmitted(); n > 0 {
		lines = append(lines[:len(lines):len(lines)], fmt.Sprintf("%d further breakers omitted", n))
	}
	return lines
}

// unseen returns about how many changes up to a revision of the table the loop has not read.
func (s *state) unseen(revision statedb.Revision) int {
	return max(0, int(revision)-int(s.observed)-s.passed)
}

// standing returns the values that the timeline records, when the table is at a revision.
func (s *state) standing(revision statedb.Revision) timeline.Standing {
	pending := s.unseen(revision) + s.counts[core.Ready] + s.counts[core.Queued] +
		s.counts[core.Unseen] + s.counts[core.Held] + s.counts[core.Paused]
	return timeline.Standing{
		Pending: int32(pending), InFlight: int32(s.counts[core.InFlight]),
		Failing: int32(s.health.Failing), Blocked: int32(s.health.Blocked),
	}
}
