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
	"github.com/statekeel/statekeel/internal/timeline"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// book has the figures of a loop, which adds to it once a round. Readers take the lock for
// as long as it takes to copy; they need not wait for the loop, which may be stuck in an
// operation.
type book[Obj any] struct {
	mu       sync.Mutex
	figures  metrics.Figures
	classes  errorclass.Classes[Obj]
	timeline timeline.Timeline
	standing roundStanding
}

// roundStanding is where the loop stood at the end of its last round.
type roundStanding struct {
	counts  [core.NumStates]int
	lanes   [core.NumLanes]int
	failing int
	blocked int
	stuck   int
	paused  bool
	// observed is the revision up to which it has looked; passed is about how many
	// changes beyond that need no looking at.
	observed statedb.Revision
	passed   int
	// unseen is about how many changes it has not looked at.
	unseen int
	// low is the lowest revision that is not applied, oldest when that was written; zero
	// if there is none.
	low     uint64
	oldest  time.Time
	prune   string
	pruneAt time.Duration
	pruning bool
	// breakers are as of a version of the core's.
	breakers        openBreakers
	breakersVersion uint64
}

// account adds a round to the book, before those are woken who wait for it: they find it
// counted.
func (l *Loop[Obj]) account(r *inspect.Round) {
	l.classifyErrors()
	at := l.now()
	b := &l.book
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.figures
	failed := 0
	for i := range l.batch.tasks {
		failed += l.accountOne(f, &l.batch.tasks[i], &l.batch.attempts[i], at)
	}
	if len(l.batch.tasks) > 0 {
		f.Rounds.Observe((at - l.began).Seconds())
	}
	f.Refreshes += uint64(r.Refreshes)
	if r.Written > 0 {
		f.CommitSizes.Observe(float64(r.Written))
		f.CommitDurations.Observe(r.CommitTook.Seconds())
	}
	f.Lost += uint64(r.Lost)
	f.Conflicts += uint64(r.Conflicts)
	f.Unset, f.BreakerOpenings, f.LeftBehind = l.observer.Unset(), l.core.BreakerOpenings(), l.pool.EverLeft()
	l.stand(&b.standing)
	b.timeline.Add(at, b.standing.forTimeline(), len(l.batch.tasks), failed)
}

// accountPrune adds the prune of a round to the book, if there was one.
func (l *Loop[Obj]) accountPrune(r *inspect.Round) {
	p := r.Prune
	if p == nil {
		return
	}
	b := &l.book
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.figures
	f.Prunes.Observe(p.Took.Seconds())
	f.Listed += uint64(p.Listed)
	f.Swept += uint64(p.Swept)
	if p.Error != "" {
		f.PruneErrors++
	}
	l.stand(&b.standing)
}

// accountOne counts one operation, and returns 1 if it failed.
func (l *Loop[Obj]) accountOne(f *metrics.Figures, t *execute.Task[Obj], a *ledger.Attempt[Obj], at time.Duration) (failed int) {
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
		return 0
	case core.Failed:
		of.Failed++
	case core.FailedForGood:
		of.Terminal++
	}
	if a.HasFailed() {
		l.blame(t, a, at)
		return 1
	}
	if a.Change && !a.Lost {
		f.Latency.Observe(max(0, at-a.Wanted).Seconds())
	}
	return 0
}

// wantedAt returns when the change that an attempt is of was written, by the loop's clock:
// before its start that is negative. What was no change, such as a refresh, is wanted since
// now, and so is a deletion that was seen in this round; 0 is never returned.
func (l *Loop[Obj]) wantedAt(a *ledger.Attempt[Obj], t *execute.Task[Obj], now time.Duration) time.Duration {
	a.Change = a.Wanted != 0 || t.Deleted
	if a.Wanted != 0 {
		return a.Wanted
	}
	at := l.began
	if !t.Deleted {
		at = now
		if s := l.rows.GetStatus(t.Row); s.Kind == status.KindPending {
			a.Change = true
			at = s.UpdatedAt.Sub(l.started)
		}
	}
	if at == 0 {
		at = 1
	}
	return at
}

// stand notes where the loop stands.
func (l *Loop[Obj]) stand(s *roundStanding) {
	s.counts, s.lanes = l.core.Counts(), l.core.LaneSizes()
	s.failing, s.blocked = l.core.NumFailing(), l.core.NumBlocked()
	s.stuck = l.pool.NumLeft()
	s.paused = l.pause.whole
	s.observed, s.passed = l.observer.Revision(), l.observer.Skippable()
	s.unseen = l.view.unseen(l.rows.DB.ReadTxn(), s)
	if low := l.core.LowWatermark(); low != s.low {
		s.low, s.oldest = low, time.Time{}
		if obj, wanted, ok := l.core.Oldest(); ok {
			s.oldest = l.view.writtenAt(obj, wanted)
		}
	}
	// When the breaker for everything probes next changes without it; then it is the only one.
	if version := l.core.OpenBreakersVersion(); version != s.breakersVersion || l.core.BreakerOpen() {
		s.breakers, s.breakersVersion = l.view.openBreakers(), version
	}
	s.prune = l.pruner.Failure()
	s.pruneAt, s.pruning = l.pruner.Next()
}

// forTimeline returns what a timeline has of a standing.
func (s *roundStanding) forTimeline() timeline.Standing {
	pending := s.unseen + s.counts[core.Ready] + s.counts[core.Queued] +
		s.counts[core.Unseen] + s.counts[core.Held] + s.counts[core.Paused]
	return timeline.Standing{
		Pending: int32(pending), InFlight: int32(s.counts[core.InFlight]),
		Failing: int32(s.failing), Blocked: int32(s.blocked),
	}
}
