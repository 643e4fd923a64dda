// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/metrics"
)

// The conditions of a reconciler as a whole; see [Snapshot].
const (
	conditionRunning    = "running"
	conditionPaused     = "paused"
	conditionBusy       = "busy"
	conditionNotStarted = "not started"
	conditionStopped    = "stopped"
)

// Snapshot says how the reconciler does as a whole. What it says of the loop is as of one
// moment between two rounds, or as of the end of the last round if the loop does not answer
// within 100 ms, being stuck in an operation; Busy says in which. The cost does not grow with
// the number of objects. Safe from any goroutine.
func (l *Loop[Obj]) Snapshot(ctx context.Context) Snapshot {
	_, why := askBriefly(ctx, l, func(*books[Obj]) struct{} {
		l.book.mu.Lock()
		defer l.book.mu.Unlock()
		l.stand(&l.book.standing)
		return struct{}{}
	})
	x := Snapshot{ID: l.ID(), At: time.Now(), Settings: l.settings.Load().texts()}
	if why != "" {
		x.Busy = l.busy()
	}
	txn := l.rows.DB.ReadTxn()
	x.Objects, x.Revision = l.rows.Table.NumObjects(txn), l.rows.Table.Revision(txn)
	if x.Initialized, _ = l.rows.Table.Initialized(txn); !x.Initialized {
		x.Waiting = l.rows.Table.PendingInitializers(txn)
	}
	x.Attempted, x.LowWatermark = l.progress.Now()

	b := &l.book
	b.mu.Lock()
	s, classes := b.standing, b.classes.List()
	running := l.scope.Load() != nil
	if running {
		x.OperationsPerSecond, x.FailuresPerSecond, x.RoundsPerSecond = b.timeline.Rates(l.now())
	}
	// The program has a part in what follows: not under the lock.
	b.mu.Unlock()
	x.Condition = l.condition(why, s.paused)
	x.States, x.Lanes = stateCounts(s.counts), laneCounts(s.lanes)
	x.Failing, x.Blocked = s.failing, s.blocked
	x.Observed = s.observed
	x.Unseen = l.unseen(txn, &s)
	x.OldestUnapplied = l.oldest(txn, &s)
	x.Errors = l.errorClasses(classes)
	x.PruneFailure = s.prune
	for i := range s.breakers.first {
		x.Breakers = append(x.Breakers, l.breakerText(&s.breakers.first[i]))
	}
	x.BreakersOmitted = s.breakers.omitted()
	x.Paused, x.PausedOmitted, x.PausedByPredicate = l.pausedKeys(txn)
	x.Stuck = l.stuckLines()
	x.Sharers = l.sharing.names()
	if running {
		x.Started = l.started
		if s.pruning {
			x.NextPrune = l.timeOf(s.pruneAt)
		}
	}
	return x
}

// condition says how the loop is. why is why it did not answer.
func (l *Loop[Obj]) condition(why string, paused bool) string {
	switch {
	case l.stopped():
		return conditionStopped
	case !l.running.Load():
		return conditionNotStarted
	case why != "":
		return conditionBusy
	case paused:
		return conditionPaused
	}
	return conditionRunning
}

func laneCounts(sizes [core.NumLanes]int) []metrics.StateCount {
	lanes := make([]metrics.StateCount, len(sizes))
	for i, n := range sizes {
		lanes[i] = metrics.StateCount{State: core.Lane(i).String(), Count: n}
	}
	return lanes
}

// texts returns the settings for people to read.
func (s *Settings) texts() []SettingText {
	return []SettingText{
		{"RoundSize", strconv.Itoa(s.RoundSize)},
		{"RoundLimiter", limiterText(s.RoundLimiter)},
		{"OperationLimiter", limiterText(s.OperationLimiter)},
		{"Concurrency", strconv.Itoa(s.Concurrency)},
		{"MaxStuck", strconv.Itoa(s.maxStuck())},
		{"Timeout", zeroText(s.Timeout, "none")},
		{"MinBackoff", s.MinBackoff.String()},
		{"MaxBackoff", s.MaxBackoff.String()},
		{"Jitter", strconv.FormatFloat(s.Jitter, 'g', -1, 64)},
		{"MaxRetries", zeroText(s.MaxRetries, "no limit")},
		{"BlockedRecheck", zeroText(s.BlockedRecheck, "never")},
		{"RefreshInterval", zeroText(s.RefreshInterval, "never")},
		{"RefreshLimiter", limiterText(s.RefreshLimiter)},
		{"PruneInterval", zeroText(s.PruneInterval, "never")},
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
