// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// snapshot is [Loop.Snapshot].
func (v *view[Obj]) snapshot(ctx context.Context) inspect.Snapshot {
	// The loop publishes its state before it answers.
	_, err := askBriefly(ctx, v, func(*answers[Obj]) struct{} { return struct{}{} })
	s, txn := v.stats.state.Load(), v.rows.DB.ReadTxn()
	p := v.calls.pause.Load()
	x := inspect.Snapshot{
		Reconciler: v.identity.String(), ID: v.identity, At: time.Now(), Settings: v.settings.Load().texts(),
		Condition: v.condition(err, s.health.PausedWhole),
		Objects:   v.rows.Table.NumObjects(txn), Revision: v.rows.Table.Revision(txn),
		Observed: s.observed, Attempted: s.attempted, LowWatermark: s.low,
		States: counted(s.keys.States[:], firstShown, core.State.String), Lanes: counted(s.keys.Lanes[:], core.Lane(0), core.Lane.String), Failing: s.health.Failing, Blocked: s.health.Blocked,
		Unseen: s.unseen(v.rows.Table.Revision(txn)), OldestUnapplied: v.oldest(txn, s), PruneFailure: s.health.PruneFailure,
		AwaitsApproval: s.health.ResyncAwaits,
		Breaker:        s.health.Breaker, Stuck: v.stuckLines(),
		Paused: slices.Clone(p.keys), PausedByPredicate: p.byPredicate(), Lists: v.lists,
	}
	if busy := (*inspect.BusyError)(nil); errors.As(err, &busy) {
		x.Busy = busy.With
	}
	if x.Initialized, _ = v.rows.Table.Initialized(txn); !x.Initialized {
		x.Waiting = v.rows.Table.PendingInitializers(txn)
	}
	b := v.stats
	b.mu.Lock()
	classes := b.classes.List()
	if v.scope.Load() != nil {
		x.Started, x.NextPrune = v.life.started, s.nextPrune
		x.Listing, x.AwaitsListing, x.Resync = s.listing, s.health.Waits, s.resync
	}
	// Unlocked first, because what follows calls functions of the program.
	b.mu.Unlock()
	for _, c := range classes {
		x.Errors = append(x.Errors, inspect.ErrorClass{
			Class: c.Name, Count: c.Count, Last: v.life.timeOf(c.At), Key: v.rows.Name(c.Object), Example: c.Text,
		})
	}
	return x
}

// condition returns the condition of the loop. err is why it did not answer.
func (v *view[Obj]) condition(err error, paused bool) inspect.Condition {
	switch {
	case v.life.stopped():
		return inspect.ConditionStopped
	case !v.life.running.Load():
		return inspect.ConditionNotStarted
	case err != nil:
		return inspect.ConditionBusy
	case paused:
		return inspect.ConditionPaused
	}
	return inspect.ConditionRunning
}

// texts returns the settings for people to read.
func (s *Settings) texts() []inspect.SettingText {
	text := func(name, value string) inspect.SettingText { return inspect.SettingText{Name: name, Value: value} }
	return []inspect.SettingText{
		text("RoundSize", strconv.Itoa(s.RoundSize)),
		text("RoundLimiter", limiterText(s.RoundLimiter)),
		text("OperationLimiter", limiterText(s.OperationLimiter)),
		text("Concurrency", strconv.Itoa(s.Concurrency)),
		text("Timeout", zeroText(s.Timeout, "none")),
		text("MinBackoff", s.MinBackoff.String()),
		text("MaxBackoff", s.MaxBackoff.String()),
		text("Jitter", strconv.FormatFloat(s.Jitter, 'g', -1, 64)),
		text("MaxRetries", zeroText(s.MaxRetries, "no limit")),
		text("BlockedRecheck", zeroText(s.BlockedRecheck, "never")),
		text("BreakerFailures", zeroText(s.BreakerFailures, "no breaker")),
		text("RefreshInterval", zeroText(s.RefreshInterval, "never")),
		text("RefreshLimiter", limiterText(s.RefreshLimiter)),
		text("PruneInterval", zeroText(s.PruneInterval, "never")),
		text("ResyncInterval", zeroText(s.ResyncInterval, "never")),
		text("ListTimeout", zeroText(s.ListTimeout, "none")),
	}
}

func zeroText[T comparable](v T, none string) string {
	var zero T
	if v == zero {
		return none
	}
	return fmt.Sprint(v)
}

func limiterText(l *rate.Limiter) string {
	if l == nil || l.Limit() == rate.Inf {
		return "none"
	}
	return fmt.Sprintf("%v/s, burst %d", float64(l.Limit()), l.Burst())
}

// writtenAt returns when the change was written that an object waits for. wanted is the time that the
// core has, zero if it has none.
func (v *view[Obj]) writtenAt(obj Obj, revision statedb.Revision, wanted time.Duration) time.Time {
	if wanted != 0 {
		return v.life.timeOf(wanted)
	}
	return v.ledger.Written(obj, revision)
}

// figures is [Loop.Figures].
func (v *view[Obj]) figures() metrics.Figures {
	b := v.stats
	b.mu.Lock()
	f := b.figures
	for _, h := range []*metrics.Histogram{
		&f.Updates.Durations, &f.Deletes.Durations, &f.Latency, &f.InForce, &f.Rounds, &f.CommitSizes, &f.CommitDurations, &f.Prunes,
	} {
		*h = h.Clone()
	}
	b.mu.Unlock()

	s, txn := b.state.Load(), v.rows.DB.ReadTxn()
	f.Panics, f.Timeouts = v.tally.Panics.Load(), v.tally.Timeouts.Load()
	f.Unset, f.BreakerOpenings = s.unset, s.breaker.Openings
	f.States = counted(s.keys.States[:], firstShown, core.State.String)
	f.Failing, f.Blocked, f.Unheld = s.health.Failing, s.health.Blocked, s.health.Unheld
	if s.breaker.Open {
		f.BreakersOpen = 1
	}
	f.Stuck, _, _ = v.workers.NumStuck()
	f.Paused = s.health.PausedWhole
	f.Objects, f.Unseen = v.rows.Table.NumObjects(txn), s.unseen(v.rows.Table.Revision(txn))
	f.OldestUnapplied = v.oldest(txn, s)
	return f
}

// firstShown is the first of the states that are reported: no key is Taken between two rounds.
const firstShown = core.Ready

// counted returns the counts of states or lanes with their names, beginning with from. counts has one for
// each N.
func counted[N core.State | core.Lane](counts []int, from N, name func(N) string) (list []metrics.StateCount) {
	for n := from; int(n) < len(counts); n++ {
		list = append(list, metrics.StateCount{State: name(n), Count: counts[n]})
	}
	return list
}

// peeked bounds how many rows are read to find the oldest one that the loop has not read.
const peeked = 64

// oldest returns when the oldest change was written that is not applied. It includes changes that the
// loop has not read.
func (v *view[Obj]) oldest(txn statedb.ReadTxn, s *state) time.Time {
	oldest, looked := s.oldest, 0
	if v.rows.Table.Revision(txn) <= s.observed {
		return oldest
	}
	for object, revision := range v.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](s.observed+1)) {
		if v.rows.Asked(object).Kind == status.KindPending {
			if at := v.ledger.Written(object, revision); oldest.IsZero() || !at.IsZero() && at.Before(oldest) {
				oldest = at
			}
			break
		}
		if looked++; looked == peeked {
			break
		}
	}
	return oldest
}
