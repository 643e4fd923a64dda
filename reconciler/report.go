// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/errorclass"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxExamples bounds how many of a list are named: see [health.MaxExamples].
const maxExamples = health.MaxExamples

// noHealth is the health of a loop whose health is not reported.
type noHealth = health.None

// account adds a round to the figures and to metrics. It is called before waits are woken, so that
// they find the round counted.
func (r *runner[Obj]) account(round *inspect.Round) {
	r.classifyErrors()
	failed := r.addToStats(round)
	if len(r.ops) > 0 || r.core.NumFailing() != r.health.Failing() {
		r.metrics.ReconciliationErrors(failed, r.core.NumFailing())
	}
}

// addToStats adds a round to the figures, and returns how many of its operations failed.
func (r *runner[Obj]) addToStats(round *inspect.Round) (failed int) {
	at := r.now()
	s := &r.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	failed = s.addRound(round, r.ops, r.began, at)
	f := &s.figures
	f.Unset, f.BreakerOpenings = r.observer.Unset(), r.core.BreakerOpenings()
	r.recordState(&s.state)
	s.timeline.Add(at, s.state.forTimeline(), len(r.ops), failed)
	return failed
}

// accountPrune adds a prune to the figures.
func (r *runner[Obj]) accountPrune(p *inspect.Prune) {
	s := &r.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addPrune(p)
	r.recordState(&s.state)
}

// recordState records the state of the loop. The caller holds the lock of stats.
func (r *runner[Obj]) recordState(s *loopState) {
	s.counts, s.lanes = r.core.Counts(), r.core.LaneSizes()
	s.failing, s.blocked = r.core.NumFailing(), r.core.NumBlocked()
	s.paused = r.paused.whole
	s.observed, s.passed = r.observer.Revision(), r.observer.Skippable()
	s.unseen = r.view.unseen(r.rows.DB.ReadTxn(), s)
	if low := r.core.LowWatermark(); low != s.low {
		s.low, s.oldest = low, time.Time{}
		if obj, wanted, ok := r.core.Oldest(); ok {
			s.oldest = r.view.writtenAt(obj, low, wanted)
		}
	}
	// The breaker for all errors changes its next probe without a new version. If it is open, it is
	// the only one.
	if version := r.core.OpenBreakersVersion(); version != s.breakersVersion || r.core.BreakerOpen() {
		s.breakers, s.breakersVersion = r.view.openBreakers(), version
	}
	s.prune = r.pruner.Failure()
	s.pruneAt, s.pruning = r.pruner.Next()
}

// report writes a pass that did something to the journal and the log, and the state of the loop to
// health if it changed.
func (r *runner[Obj]) report(round *inspect.Round, txn statedb.ReadTxn) {
	if launched := r.budget.workers && round.Changes+round.Waited > 0; launched || len(r.ops) > 0 || round.Prune != nil {
		r.sequence++
		round.Sequence = r.sequence
		round.Took = r.now() - r.began
		r.record(round)
		moving := r.workers.Moving()
		if r.budget.workers {
			moving += len(r.ops)
		}
		items := round.Changes + round.Waited
		r.pace.Ran(pace.Round{
			Began: r.began, Items: items, Refreshes: round.Refreshes, Waited: round.Waited,
			More: items >= r.set.RoundSize || moving == 0 && r.observer.Behind(), Moving: moving,
		})
	}
	if round.Prune != nil {
		r.accountPrune(round.Prune)
	}
	r.logRound()
	r.forgetOperations()
	r.reportHealth(r.rows.Table.NumObjects(txn))
}

// reportHealth reports the state of the loop to health, if it changed.
func (r *runner[Obj]) reportHealth(objects int) {
	now := health.Condition{
		Objects:      objects,
		Failing:      r.core.NumFailing(),
		Blocked:      r.core.NumBlocked(),
		Paused:       r.core.Count(core.Paused),
		Failures:     r.core.FailureVersion(),
		PausedWhole:  r.paused.whole,
		PruneFailure: r.pruner.Failure(),
		Breakers:     r.core.NumOpenBreakers(), BreakerChanges: r.core.OpenBreakersVersion(),
	}
	now.Stuck, now.StuckChanges, now.NoWorker = r.workers.NumStuck()
	if !r.health.IsNews(now) {
		return
	}
	var d health.Details
	if now.Stuck > 0 {
		d.Stuck = r.view.stuckLines()
	}
	if now.Breakers > 0 {
		d.Breakers = r.view.breakerLines(r.view.openBreakers())
	} else if now.Failing > 0 {
		for failure := range r.core.Failures {
			if len(d.Failures) == maxExamples {
				break
			}
			d.Failures = append(d.Failures, failure)
		}
	}
	r.health.Tell(now, d)
}

// newReporter returns the reporter to health. It also reports a call on the goroutine of the loop
// that takes long.
func (l *Loop[Obj]) newReporter() *health.Reporter {
	limit := func() time.Duration { return max(execute.Long, execute.Patience(l.settings.Load().Timeout)) }
	return health.New(health.Calls{Now: l.now, Limit: limit, Busy: l.busy})
}

// stuckLines returns a line for each stuck call of a worker. Safe from any goroutine.
func (v *view[Obj]) stuckLines() (lines []string) {
	for _, s := range v.workers.StuckCalls() {
		others := ""
		if s.Others > 0 {
			others = " and of " + count(s.Others, "other object")
		}
		lines = append(lines, fmt.Sprintf("%s of %s%s is stuck, running since %s",
			execute.NameOf(s.Deleted), rows.KeyText(v.rows.Key(s.Object)), others, v.timeOf(s.Since).Format(time.RFC3339)))
	}
	return lines
}

// openBreakers are the open breakers: the first few, and how many are open in total. So the cost does
// not depend on how many are open.
type openBreakers struct {
	first []core.OpenBreaker
	n     int
}

// openBreakers returns the open breakers of the core. It is called by the goroutine of the loop.
func (v *view[Obj]) openBreakers() openBreakers {
	return openBreakers{v.core.OpenBreakers(maxExamples), v.core.NumOpenBreakers()}
}

// everything returns the breaker for all errors; nil unless it is open.
func (b *openBreakers) everything() *core.OpenBreaker {
	if len(b.first) > 0 && b.first[0].Class == "" {
		return &b.first[0]
	}
	return nil
}

// omitted returns how many are open in addition to the first few.
func (b *openBreakers) omitted() int { return b.n - len(b.first) }

// breakerLines returns a line for each of the first few, and one that counts the others.
func (v *view[Obj]) breakerLines(open openBreakers) (lines []string) {
	for i := range open.first {
		lines = append(lines, v.breakerText(&open.first[i]))
	}
	if n := open.omitted(); n > 0 {
		lines = append(lines, omittedBreakers(n))
	}
	return lines
}

// omittedBreakers returns the line for the breakers that are not named.
func omittedBreakers(n int) string { return fmt.Sprintf("%d further breakers omitted", n) }

func (v *view[Obj]) breakerText(b *core.OpenBreaker) string {
	of := ""
	if b.Class != "" {
		of = fmt.Sprintf(" for %q", b.Class)
	}
	return fmt.Sprintf("breaker%s open since %s: %s", of, v.timeOf(b.Since).Format(time.RFC3339), text.Printable(b.Failure))
}

// errorClasses makes classes of failures readable for people.
func (v *view[Obj]) errorClasses(classes []errorclass.Class[Obj]) []inspect.ErrorClass {
	list := make([]inspect.ErrorClass, len(classes))
	for i := range classes {
		c := &classes[i]
		list[i] = inspect.ErrorClass{Class: c.Name, Count: c.Count, Last: v.timeOf(c.At), Key: v.rows.Name(c.Object), Example: c.Text}
	}
	return list
}

// logRound logs the failures that errorclass has chosen for the log, and at level debug every
// operation.
func (r *runner[Obj]) logRound() {
	for _, f := range r.stats.classes.TakeLines() {
		r.log.Warn("operation failed", "operation", f.Operation, "key", r.rows.Name(f.Object), "revision", f.Revision,
			"attempt", f.Attempt, "error", f.Text, "repeated", f.Repeated)
	}
	if !r.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range r.ops {
		op := &r.ops[i]
		args := []any{"operation", execute.NameOf(op.Deleted), "key", r.rows.Name(op.Row), "revision", op.RowRevision,
			"attempt", op.Failures + 1, "cause", op.Cause.String(), "result", op.Kind.String(), "took", op.Took}
		if op.Text != nil {
			args = append(args, "error", *op.Text)
		}
		r.log.Debug("operation", args...)
	}
}

// classifyErrors calls Config.ErrorClass for the failures of a round that have no class yet. It is
// called without a lock, because that function may end the goroutine.
func (r *runner[Obj]) classifyErrors() {
	if r.cfg.ErrorClass == nil {
		return
	}
	for i := range r.ops {
		if op := &r.ops[i]; !op.Classed && op.HasFailed() {
			op.Class, op.Classed = r.classes.Of(op.Err, *op.Text, op.Row), true
		}
	}
}

// record adds a round and its operations to the journal.
func (r *runner[Obj]) record(round *inspect.Round) {
	w := r.journal.Begin(round)
	defer w.End()
	for i := range r.ops {
		op := &r.ops[i]
		w.Add(journal.Entry[Obj]{
			Object: op.Object, Revision: op.RowRevision, Took: op.Took, Text: op.Text, Note: op.Note, Attempt: op.Failures + 1,
			Result: op.Kind, Cause: op.Cause, Deleted: op.Deleted, Lost: op.Lost, Conflict: op.Conflict,
		})
	}
}
