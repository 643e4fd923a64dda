// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/breaker"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// state is the state of a loop at one moment between two rounds. It never changes: the loop publishes
// the next one, and readers of any goroutine neither lock nor copy it.
type state struct {
	// health is what health is told. It also has the counts of failing and blocked objects, the line about the
	// open breaker, the pause that the loop has applied, and the last failure of a prune.
	health health.Condition
	// keys counts the keys that the core knows.
	keys core.Figures
	// observed is the revision up to which the loop has read the table, attempted the one up to which
	// every change was attempted. passed is about how many changes after observed need no reading.
	observed, attempted statedb.Revision
	passed              int
	// low is the lowest revision that is not applied, oldest is when it was written; zero if there is
	// none.
	low    statedb.Revision
	oldest time.Time
	// nextPrune is zero if no prune is due, listing unless the target is being listed. resync is nil if there was none.
	nextPrune, listing time.Time
	resync             *inspect.Resync
	// pruneFailures counts the prunes, or listings, that failed in a row. hasLooked reports whether one is over.
	pruneFailures int
	hasLooked     bool
	// unset counts the changes of rows without a status.
	unset   uint64
	breaker breaker.State
}

// publishState publishes the state of the loop, and returns it. If nothing has changed, that is the
// last one, so that an idle pass allocates nothing.
func (r *runner[Obj]) publishState() *state {
	last, txn := r.shared.stats.state.Load(), r.shared.rows.DB.ReadTxn()
	observed, index := r.observer.Revision(), r.core.Index
	keys := index.Figures()
	s := state{
		health: health.Condition{
			Objects: r.shared.rows.Table.NumObjects(txn), Failing: keys.Failing, Blocked: keys.Blocked,
			Paused: keys.States[core.Paused], PausedWhole: r.paused.whole,
			Failures: keys.FailureVersion,
		},
		keys:     keys,
		observed: observed, attempted: max(last.attempted, index.Attempted(observed)),
		passed: r.observer.Skippable(),
		low:    index.LowWatermark(), oldest: last.oldest,
		unset: r.observer.Unset(), breaker: r.breaker.State,
	}
	looks := r.resync.State(r.life.now())
	s.health.PruneFailure, s.health.ResyncAwaits = looks.Failure, looks.Awaits
	s.health.Listing, s.health.Unheld, s.health.Waits = looks.Trouble, r.fights.Len(), looks.Waits
	s.listing, s.resync, s.pruneFailures, s.hasLooked = looks.Listing, r.lastResync, looks.Failures, r.left.upTo > 0
	s.health.Stuck, s.health.StuckChanges, s.health.NoWorker = r.workers.NumStuck()
	if s.low != last.low {
		s.oldest = time.Time{}
		if obj, wanted, ok := index.Oldest(); ok {
			s.oldest = r.reports.view.writtenAt(obj, s.low, wanted)
		}
	}
	if looks.At >= 0 {
		s.nextPrune = r.life.timeOf(looks.At)
	}
	if b := s.breaker; b.Open {
		s.health.Breaker = fmt.Sprintf("breaker open since %s: %s", r.life.timeOf(b.Since).Format(time.RFC3339), text.Printable(b.Failure))
	}
	if s == *last {
		return last
	}
	next := new(state)
	*next = s
	r.shared.stats.state.Store(next)
	return next
}

// awaitsListing describes what objects wait for while the loop waits for its first listing of the target.
func (s *state) awaitsListing() string {
	const waits = "waits for the first listing of the target, which "
	if s.pruneFailures == 0 {
		return waits + "shows whether the object is there already"
	}
	return waits + "has failed " + count(s.pruneFailures, "time") + ": " + strings.TrimPrefix(s.health.PruneFailure, "resync: listing the target: ")
}

// unseen returns about how many changes up to a revision of the table the loop has not read.
func (s *state) unseen(revision statedb.Revision) int {
	return max(0, int(revision)-int(s.observed)-s.passed)
}
