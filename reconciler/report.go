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
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxExamples bounds what is named of many: see [health.MaxExamples].
const maxExamples = health.MaxExamples

// noHealth is the health of a loop that nobody asks.
type noHealth = health.None

// count tells metrics what a pass did, if it ran anything or the number of failing objects
// changed: before those are woken who wait for it, and before a prune, which may take long.
func (l *Loop[Obj]) count() {
	if len(l.batch.tasks) == 0 && l.core.NumFailing() == l.reporter.Failing() {
		return
	}
	failed := 0
	for i := range l.batch.attempts {
		if a := &l.batch.attempts[i]; a.HasFailed() {
			failed++
		}
	}
	l.metrics.ReconciliationErrors(failed, l.core.NumFailing())
}

// report says what a pass did: to the journal if it did anything, to health if that changed.
func (l *Loop[Obj]) report(r *inspect.Round, txn statedb.ReadTxn, began time.Duration) {
	tasks := l.batch.tasks
	if launched := l.pooled && r.Changes+r.Waited > 0; launched || len(tasks) > 0 || r.Prune != nil {
		l.sequence++
		r.Sequence = l.sequence
		r.Took = l.now() - began
		l.record(r)
		moving := l.pool.Moving()
		if l.pooled {
			moving += len(tasks)
		}
		items := r.Changes + r.Waited
		l.pace.Ran(pace.Round{
			Began: began, Items: items, Refreshes: r.Refreshes, Waited: r.Waited,
			More: items >= l.set.RoundSize || l.observer.Behind(), Moving: moving,
		})
	}
	l.accountPrune(r)
	l.logRound()
	l.recycle()
	l.reportHealth(l.rows.Table.NumObjects(txn))
}

// reportHealth tells health how the loop is, if that is news.
func (l *Loop[Obj]) reportHealth(objects int) {
	now := health.Condition{
		Objects:      objects,
		Failing:      l.core.NumFailing(),
		Blocked:      l.core.NumBlocked(),
		Paused:       l.core.Count(core.Paused),
		Failures:     l.core.FailureVersion(),
		PausedWhole:  l.pause.whole,
		PruneFailure: l.pruner.Failure(),
		Shared:       l.sharing.text(),
		Breakers:     l.core.NumOpenBreakers(), BreakerChanges: l.core.OpenBreakersVersion(),
	}
	now.Stuck, now.StuckChanges = l.pool.NumNamed()
	if !l.reporter.IsNews(now) {
		return
	}
	var d health.Details
	if now.Stuck > 0 {
		d.Stuck = l.view.stuckLines()
	}
	if now.Breakers > 0 {
		d.Breakers = l.view.breakerLines(l.view.openBreakers())
	} else if now.Failing > 0 {
		for failure := range l.core.Failures {
			if len(d.Failures) == maxExamples {
				break
			}
			d.Failures = append(d.Failures, failure)
		}
	}
	l.reporter.Tell(now, d)
}

// newReporter returns what tells health how the loop is, and which call it has been in for long.
func (l *Loop[Obj]) newReporter() *health.Reporter {
	limit := func() time.Duration { return max(execute.Long, execute.Patience(l.settings.Load().Timeout)) }
	return health.New(health.Calls{Now: l.now, Limit: limit, Busy: l.busy})
}

// stuckLines has a line for each operation in the pool that takes long. Safe from any
// goroutine.
func (v *view[Obj]) stuckLines() (lines []string) {
	for _, s := range v.pool.Named() {
		operation := OpUpdate
		if s.Deleted {
			operation = OpDelete
		}
		what := "takes long"
		if s.LeftBehind {
			what = "ignores its deadline"
		}
		others := ""
		if s.Others > 0 {
			others = " and of " + count(s.Others, "other object")
		}
		lines = append(lines, fmt.Sprintf("%s of %s%s %s, running since %s",
			operation, rows.KeyText(v.rows.Key(s.Object)), others, what, v.timeOf(s.Since).Format(time.RFC3339)))
	}
	return lines
}

// openBreakers are the breakers that are open, for those who name them: the first few, and
// how many there are in all, so that it costs the same however many are open.
type openBreakers struct {
	first []core.OpenBreaker
	n     int
}

// openBreakers returns those of the core.
func (v *view[Obj]) openBreakers() openBreakers {
	return openBreakers{v.core.OpenBreakers(maxExamples), v.core.NumOpenBreakers()}
}

// everything returns the breaker for all errors, if it is open.
func (b *openBreakers) everything() *core.OpenBreaker {
	if len(b.first) > 0 && b.first[0].Class == "" {
		return &b.first[0]
	}
	return nil
}

// omitted returns how many are open beside the first few.
func (b *openBreakers) omitted() int { return b.n - len(b.first) }

// breakerLines has a line for each of the first few, and one that counts the others.
func (v *view[Obj]) breakerLines(open openBreakers) (lines []string) {
	for i := range open.first {
		lines = append(lines, v.breakerText(&open.first[i]))
	}
	if n := open.omitted(); n > 0 {
		lines = append(lines, omittedBreakers(n))
	}
	return lines
}

// omittedBreakers is the line for the breakers that are not named.
func omittedBreakers(n int) string { return fmt.Sprintf("%d further breakers omitted", n) }

func (v *view[Obj]) breakerText(b *core.OpenBreaker) string {
	of := ""
	if b.Class != "" {
		of = fmt.Sprintf(" for %q", b.Class)
	}
	return fmt.Sprintf("breaker%s open since %s: %s", of, v.timeOf(b.Since).Format(time.RFC3339), text.Printable(b.Failure))
}

// timeOf returns what the wall clock shows at a time of the loop's.
func (l *Loop[Obj]) timeOf(at time.Duration) time.Time { return l.started.Add(at) }

// maxClass bounds the length of a class's name.
const maxClass = 120

// blame counts a failure among its kind, and makes a line for the log if it is its turn. It is
// called under the lock of the book.
func (l *Loop[Obj]) blame(t *execute.Task[Obj], a *ledger.Attempt[Obj], at time.Duration) {
	c, said := &l.book.classes, *a.Text
	class, same := c.Last(said)
	if a.Classed || !same {
		if class = a.Class; class == "" {
			class = l.classes.ByText(said, t.Row)
		}
		class = text.Short(class, maxClass)
	}
	c.Add(class, at, errorclass.Failure[Obj]{
		Operation: t.Operation(), Object: t.Row, Revision: t.Revision, Attempt: t.Attempt, Text: said,
	})
}

// errorClasses says for people what kinds of failures there were.
func (v *view[Obj]) errorClasses(classes []errorclass.Class[Obj]) []inspect.ErrorClass {
	list := make([]inspect.ErrorClass, len(classes))
	for i := range classes {
		c := &classes[i]
		list[i] = inspect.ErrorClass{Class: c.Name, Count: c.Count, Last: v.timeOf(c.At), Key: v.rows.Name(c.Object), Example: c.Text}
	}
	return list
}

// logRound logs the failures of a round whose turn it is, and every operation for those who debug.
func (l *Loop[Obj]) logRound() {
	for _, f := range l.book.classes.TakeLines() {
		l.log.Warn("operation failed", "operation", f.Operation, "key", l.rows.Name(f.Object), "revision", f.Revision,
			"attempt", f.Attempt, "error", f.Text, "repeated", f.Repeated)
	}
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range l.batch.tasks {
		t, a := &l.batch.tasks[i], &l.batch.attempts[i]
		args := []any{"operation", t.Operation(), "key", l.rows.Name(t.Row), "revision", t.Revision,
			"attempt", t.Attempt, "cause", a.Cause.String(), "result", a.Kind.String(), "took", t.Took}
		if a.Text != nil {
			args = append(args, "error", *a.Text)
		}
		l.log.Debug("operation", args...)
	}
}

// classifyErrors asks the function of the program, if there is one, for the classes of the failures of
// a round that have none yet. It is called without a lock: the function may end the goroutine.
func (l *Loop[Obj]) classifyErrors() {
	if l.cfg.ErrorClass == nil {
		return
	}
	for i := range l.batch.attempts {
		t, a := &l.batch.tasks[i], &l.batch.attempts[i]
		if !a.Classed && a.HasFailed() {
			a.Class, a.Classed = l.classes.Of(t.Err, *a.Text, t.Row), true
		}
	}
}

// record adds a round, and what was run in it, to the journal.
func (l *Loop[Obj]) record(r *inspect.Round) {
	w := l.journal.Begin(r)
	defer w.End()
	for i := range l.batch.tasks {
		t, a := &l.batch.tasks[i], &l.batch.attempts[i]
		w.Add(journal.Entry[Obj]{
			Object: t.Object, Revision: t.Revision, Took: t.Took, Text: a.Text, Note: t.Note, Attempt: t.Attempt,
			Result: a.Kind, Cause: a.Cause, Deleted: t.Deleted, Lost: a.Lost, Conflict: a.Conflict,
		})
	}
}
