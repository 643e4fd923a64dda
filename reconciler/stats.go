// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/errorclass"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// stats has the figures of a loop, which updates them once a round. Readers hold the lock only while
// they copy; they do not wait for the loop, which may be stuck in an operation.
type stats[Obj any] struct {
	// state is the latest state that the loop has published.
	state atomic.Pointer[state]
	// journal has the latest rounds and operations.
	journal *journal.Journal[Obj]

	mu      sync.Mutex
	figures metrics.Figures
	classes errorclass.Classes[Obj]
}

// addRound adds a round that began at a time, and its operations. The failures have their classes. It returns how many
// of the operations failed.
func (s *stats[Obj]) addRound(
	round *inspect.Round, ops []core.Operation[Obj], began, at time.Duration, origins *inputs.Origins,
) (failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		op := &ops[i]
		s.addOperation(op)
		if op.Outcome.HasFailed() {
			s.classes.Add(op.Outcome.Class, at, errorclass.Failure[Obj]{
				Operation: execute.NameOf(op.Deleted), Object: op.Row, Revision: op.RowRevision, Attempt: op.Failures + 1, Text: *op.Outcome.Text,
			})
			failed++
		}
	}
	s.addLatencies(ops, at)
	if origins != nil {
		s.addInForce(ops, origins)
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

// addOperation counts one operation. The caller holds the lock.
func (s *stats[Obj]) addOperation(op *core.Operation[Obj]) {
	f := &s.figures
	if op.Turn.Cause == core.CauseAdopted {
		f.Adopted++
		return
	}
	of := &f.Updates
	if op.Deleted {
		of = &f.Deletes
	}
	if op.Run.FirstOfCall {
		of.Durations.Observe(op.Run.Share.Seconds())
	}
	if op.Failures > 0 {
		f.Retries++
	}
	switch op.Turn.Cause {
	case core.CauseReleased:
		f.Released++
	case core.CauseRepair:
		f.Repairs++
	}
	switch op.Outcome.Kind {
	case core.Done:
		of.Done++
	case core.DoneAgain:
		of.Requeued++
	case core.BlockedOn, core.Deleting:
		of.Blocked++
	case core.Failed:
		of.Failed++
	case core.FailedForGood:
		of.Terminal++
	}
}

// addLatencies counts how long the changes that were applied had been wanted, at a time. The changes that were
// written in one transaction mostly follow each other, and count together. The caller holds the lock.
func (s *stats[Obj]) addLatencies(ops []core.Operation[Obj], at time.Duration) {
	var wanted time.Duration
	n := uint64(0)
	for i := range ops {
		op := &ops[i]
		if !op.Outcome.Succeeded() || op.Outcome.Wanted == 0 || op.Outcome.Lost {
			continue
		}
		if op.Outcome.Wanted != wanted {
			s.figures.Latency.ObserveMany(max(0, at-wanted).Seconds(), n)
			wanted, n = op.Outcome.Wanted, 0
		}
		n++
	}
	s.figures.Latency.ObserveMany(max(0, at-wanted).Seconds(), n)
}

// addInForce counts how long ago the changes were made, at the beginning of the chain, that those follow from that were
// applied for the first time. The caller holds the lock.
func (s *stats[Obj]) addInForce(ops []core.Operation[Obj], origins *inputs.Origins) {
	now := time.Now()
	for i := range ops {
		op := &ops[i]
		if !op.Outcome.Succeeded() || op.Outcome.Wanted == 0 || op.Outcome.Lost || op.Turn.Repeats || op.Turn.Cause == core.CauseOrphan {
			continue
		}
		// The row may have been written since, with the status.
		if at, known := origins.Of(op.Since()); known {
			s.figures.InForce.Observe(max(0, now.Sub(at)).Seconds())
		}
	}
}

// addPrune counts the prune or resync of a round.
func (s *stats[Obj]) addPrune(round *inspect.Round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.figures
	var took time.Duration
	var failure string
	if p := round.Prune; p != nil {
		took, failure = p.Took, p.Error
	} else {
		p := round.Resync
		took, failure = p.Took, p.Error
		f.Listed += uint64(p.Listed)
		f.Orphans += uint64(p.Orphan)
		if !p.Adopts {
			// What the first listing has not may never have been applied: that is no drift.
			f.Missing += uint64(p.Missing)
			f.Different += uint64(p.Different)
		}
	}
	if round.Resync != nil && round.Resync.Adopts && failure == "" {
		// It looked for no orphans.
		return
	}
	f.Prunes.Observe(took.Seconds())
	if failure != "" {
		f.PruneErrors++
	}
}
