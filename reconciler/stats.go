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
func (s *stats[Obj]) addRound(round *inspect.Round, ops []core.Operation[Obj], began, at time.Duration) (failed int) {
	for i := range ops {
		op := &ops[i]
		s.addOperation(op, at)
		if op.HasFailed() {
			s.addFailure(op, at)
			failed++
		}
	}
	f := &s.figures
	if len(ops) > 0 {
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
func (s *stats[Obj]) addOperation(op *core.Operation[Obj], at time.Duration) {
	f := &s.figures
	of := &f.Updates
	if op.Deleted {
		of = &f.Deletes
	}
	if op.FirstOfCall {
		of.Durations.Observe(op.Share.Seconds())
	}
	if op.Failures > 0 {
		f.Retries++
	}
	if op.Cause == core.CauseReleased {
		f.Released++
	}
	switch op.Kind {
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
	if op.Change && !op.Lost {
		f.Latency.Observe(max(0, at-op.Wanted).Seconds())
	}
}

// maxClass bounds the length of a class's name, in bytes.
const maxClass = 120

// addFailure counts a failure in its class, and prepares a line of the log if the class is due for
// one.
func (s *stats[Obj]) addFailure(op *core.Operation[Obj], at time.Duration) {
	said := *op.Text
	class, same := s.classes.Last(said)
	if op.Classed || !same {
		if class = op.Class; class == "" {
			class = s.errors.ByText(said, op.Row)
		}
		class = text.Short(class, maxClass)
	}
	s.classes.Add(class, at, errorclass.Failure[Obj]{
		Operation: execute.NameOf(op.Deleted), Object: op.Row, Revision: op.RowRevision, Attempt: op.Failures + 1, Text: said,
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
