// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Snapshot says how the reconciler does as a whole. What it says of the loop is as of one
// moment between two rounds, or as of the end of the last round if the loop does not answer
// within 100 ms, being stuck in an operation; Busy says in which. The cost does not grow with
// the number of objects. Safe from any goroutine.
func (l *Loop[Obj]) Snapshot(ctx context.Context) inspect.Snapshot {
	_, err := askBriefly(ctx, l, func(*books[Obj]) struct{} {
		l.book.mu.Lock()
		defer l.book.mu.Unlock()
		l.stand(&l.book.standing)
		return struct{}{}
	})
	x := inspect.Snapshot{Reconciler: l.ID().String(), ID: l.ID(), At: time.Now(), Settings: l.settings.Load().texts()}
	if busy := (*inspect.BusyError)(nil); errors.As(err, &busy) {
		x.Busy = busy.With
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
	x.Condition = l.condition(err, s.paused)
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

// condition says how the loop is. err is why it did not answer.
func (l *Loop[Obj]) condition(err error, paused bool) inspect.Condition {
	switch {
	case l.stopped():
		return inspect.ConditionStopped
	case !l.running.Load():
		return inspect.ConditionNotStarted
	case err != nil:
		return inspect.ConditionBusy
	case paused:
		return inspect.ConditionPaused
	}
	return inspect.ConditionRunning
}

func laneCounts(sizes [core.NumLanes]int) []metrics.StateCount {
	lanes := make([]metrics.StateCount, len(sizes))
	for i, n := range sizes {
		lanes[i] = metrics.StateCount{State: core.Lane(i).String(), Count: n}
	}
	return lanes
}

// texts returns the settings for people to read.
func (s *Settings) texts() []inspect.SettingText {
	text := func(name, value string) inspect.SettingText { return inspect.SettingText{Name: name, Value: value} }
	return []inspect.SettingText{
		text("RoundSize", strconv.Itoa(s.RoundSize)),
		text("RoundLimiter", limiterText(s.RoundLimiter)),
		text("OperationLimiter", limiterText(s.OperationLimiter)),
		text("Concurrency", strconv.Itoa(s.Concurrency)),
		text("MaxStuck", strconv.Itoa(s.maxStuck())),
		text("Timeout", zeroText(s.Timeout, "none")),
		text("MinBackoff", s.MinBackoff.String()),
		text("MaxBackoff", s.MaxBackoff.String()),
		text("Jitter", strconv.FormatFloat(s.Jitter, 'g', -1, 64)),
		text("MaxRetries", zeroText(s.MaxRetries, "no limit")),
		text("BlockedRecheck", zeroText(s.BlockedRecheck, "never")),
		text("RefreshInterval", zeroText(s.RefreshInterval, "never")),
		text("RefreshLimiter", limiterText(s.RefreshLimiter)),
		text("PruneInterval", zeroText(s.PruneInterval, "never")),
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
