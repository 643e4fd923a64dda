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
	s.failing, s.blocked = l.core.Failing(), l.core.NumBlocked()
	s.stuck = l.pool.NumLeft()
	s.paused = l.pause.whole
	s.observed, s.passed = l.observer.Revision(), l.observer.Skippable()
	s.unseen = l.unseen(l.rows.DB.ReadTxn(), s)
	if low := l.core.LowWatermark(); low != s.low {
		s.low, s.oldest = low, time.Time{}
		if obj, wanted, ok := l.core.Oldest(); ok {
			s.oldest = l.writtenAt(obj, wanted)
		}
	}
	// When the breaker for everything probes next changes without it; then it is the only one.
	if version := l.core.OpenBreakersVersion(); version != s.breakersVersion || l.core.Open() {
		s.breakers, s.breakersVersion = l.openBreakers(), version
	}
	s.prune = l.pruner.Failure()
	s.pruneAt, s.pruning = l.pruner.Next()
}

// writtenAt returns when the change was written that an object owes. wanted is what the
// core knows of it.
func (l *Loop[Obj]) writtenAt(obj Obj, wanted time.Duration) time.Time {
	if wanted != 0 {
		return l.timeOf(wanted)
	}
	return l.rows.GetStatus(obj).UpdatedAt
}

// Figures returns what the loop has counted, and how it stands. It implements
// [metrics.Source].
func (l *Loop[Obj]) Figures() metrics.Figures {
	b := &l.book
	b.mu.Lock()
	f := b.figures
	for _, h := range []*metrics.Histogram{
		&f.Updates.Durations, &f.Deletes.Durations, &f.Latency, &f.Rounds, &f.CommitSizes, &f.CommitDurations, &f.Prunes,
	} {
		*h = h.Clone()
	}
	s := b.standing
	b.mu.Unlock()

	f.Panics, f.Timeouts = l.calling.Tally.Panics.Load(), l.calling.Tally.Timeouts.Load()
	f.States = stateCounts(s.counts)
	f.Failing, f.Blocked = s.failing, s.blocked
	f.BreakersOpen, f.Stuck = s.breakers.n, s.stuck
	f.Paused = s.paused
	txn := l.rows.DB.ReadTxn()
	f.Objects = l.rows.Table.NumObjects(txn)
	f.Unseen = l.unseen(txn, &s)
	f.OldestUnapplied = l.oldest(txn, &s)
	return f
}

// shownStates are the states that figures tell of, in their order: all in which a key is
// between two rounds.
var shownStates = []core.State{
	core.Ready, core.InFlight, core.Queued, core.Paused, core.Tripped, core.Unseen,
	core.Held, core.Retry, core.Requeue, core.Blocked, core.Terminal,
}

func stateCounts(counts [core.NumStates]int) []metrics.StateCount {
	states := make([]metrics.StateCount, len(shownStates))
	for i, s := range shownStates {
		states[i] = metrics.StateCount{State: s.String(), Count: counts[s]}
	}
	return states
}

// unseen returns about how many changes of a snapshot the loop has not looked at.
func (l *Loop[Obj]) unseen(txn statedb.ReadTxn, s *roundStanding) int {
	return max(0, int(l.rows.Table.Revision(txn))-int(s.observed)-s.passed)
}

// peeked bounds how many rows are looked at for the oldest that the loop has not seen.
const peeked = 64

// oldest returns when the oldest change was written that is not applied, those that the
// loop has not looked at included.
func (l *Loop[Obj]) oldest(txn statedb.ReadTxn, s *roundStanding) time.Time {
	oldest, looked := s.oldest, 0
	if l.rows.Table.Revision(txn) <= s.observed {
		return oldest
	}
	for object := range l.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](s.observed+1)) {
		if is := l.rows.GetStatus(object); is.Kind == status.KindPending {
			if oldest.IsZero() || is.UpdatedAt.Before(oldest) {
				oldest = is.UpdatedAt
			}
			break
		}
		if looked++; looked == peeked {
			break
		}
	}
	return oldest
}
