// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/errorclass"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/timeline"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// stats has the figures of a loop, which updates them once a round. Readers hold the lock only while
// they copy; they do not wait for the loop, which may be stuck in an operation.
type stats[Obj comparable] struct {
	// errors classifies failures that have no class yet.
	errors *outcome.Classes[Obj]

	mu       sync.Mutex
	figures  metrics.Figures
	classes  errorclass.Classes[Obj]
	timeline timeline.Timeline
	state    loopState
}

// loopState is the state of the loop at the end of its last round.
type loopState struct {
	counts  [core.NumStates]int
	lanes   [core.NumLanes]int
	failing int
	blocked int
	paused  bool
	// observed is the revision up to which the loop has read the table; passed is about how many
	// later changes need no reading.
	observed statedb.Revision
	passed   int
	// unseen is about how many changes the loop has not read.
	unseen int
	// low is the lowest revision that is not applied, oldest is when it was written; zero if there is
	// none.
	low     uint64
	oldest  time.Time
	prune   string
	pruneAt time.Duration
	pruning bool
	// breakers are those of the core at breakersVersion.
	breakers        openBreakers
	breakersVersion uint64
}

// addRound adds a round that began at a time, and its operations. It returns how many of these
// failed. The caller holds the lock; this also applies to the methods below.
func (s *stats[Obj]) addRound(round *inspect.Round, b *batch[Obj], began, at time.Duration) (failed int) {
	for i := range b.tasks {
		t, a := &b.tasks[i], &b.attempts[i]
		s.addOperation(t, a, at)
		if a.HasFailed() {
			s.addFailure(t, a, at)
			failed++
		}
	}
	f := &s.figures
	if len(b.tasks) > 0 {
		f.Rounds.Observe((at - began).Seconds())
	}
	f.Refreshes += uint64(round.Refreshes)
	if round.Written > 0 {
		f.CommitSizes.Observe(float64(round.Written))
		f.CommitDurations.Observe(round.CommitTook.Seconds())
	}
	f.Lost += uint64(round.Lost)
	f.Conflicts += uint64(round.Conflicts)
	return failed
}

// addOperation counts one operation.
func (s *stats[Obj]) addOperation(t *execute.Task[Obj], a *ledger.Attempt[Obj], at time.Duration) {
	f := &s.figures
	of := &f.Updates
	if t.Deleted {
		of = &f.Deletes
	}
	if t.FirstOfCall {
		of.Durations.Observe(t.Share.Seconds())
	}
	if t.Attempt > 1 {
		f.Retries++
	}
	if a.Cause == core.CauseReleased {
		f.Released++
	}
	switch a.Kind {
	case core.Done:
		of.Done++
	case core.DoneAgain:
		of.Requeued++
	case core.BlockedOn, core.Deleting:
		of.Blocked++
		return
	case core.Failed:
		of.Failed++
		return
	case core.FailedForGood:
		of.Terminal++
		return
	}
	if a.Change && !a.Lost {
		f.Latency.Observe(max(0, at-a.Wanted).Seconds())
	}
}

// maxClass bounds the length of a class's name, in bytes.
const maxClass = 120

// addFailure counts a failure in its class, and prepares a line of the log if the class is due for
// one.
func (s *stats[Obj]) addFailure(t *execute.Task[Obj], a *ledger.Attempt[Obj], at time.Duration) {
	said := *a.Text
	class, same := s.classes.Last(said)
	if a.Classed || !same {
		if class = a.Class; class == "" {
			class = s.errors.ByText(said, t.Row)
		}
		class = text.Short(class, maxClass)
	}
	s.classes.Add(class, at, errorclass.Failure[Obj]{
		Operation: t.Operation(), Object: t.Row, Revision: t.Revision, Attempt: t.Attempt, Text: said,
	})
}

// addPrune counts a prune.
func (s *stats[Obj]) addPrune(p *inspect.Prune) {
	f := &s.figures
	f.Prunes.Observe(p.Took.Seconds())
	f.Listed += uint64(p.Listed)
	f.Swept += uint64(p.Swept)
	if p.Error != "" {
		f.PruneErrors++
	}
}

// forTimeline returns the values that the timeline records.
func (s *loopState) forTimeline() timeline.Standing {
	pending := s.unseen + s.counts[core.Ready] + s.counts[core.Queued] +
		s.counts[core.Unseen] + s.counts[core.Held] + s.counts[core.Paused]
	return timeline.Standing{
		Pending: int32(pending), InFlight: int32(s.counts[core.InFlight]),
		Failing: int32(s.failing), Blocked: int32(s.blocked),
	}
}
