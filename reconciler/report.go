// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// noHealth returns the health of a loop whose health is not reported.
var noHealth = health.None

// account publishes the state after a round, and adds the round to the figures and to metrics. It is
// called before waits are woken, so that they find the round counted.
func (r *runner[Obj]) account(round *inspect.Round) {
	r.classifyErrors()
	now := r.publishState()
	failed := r.stats.addRound(round, r.ops, r.began, r.now(), now.standing(r.rows.Revision()))
	if len(r.ops) > 0 || now.health.Failing != r.health.Failing() {
		r.metrics.ReconciliationErrors(failed, now.health.Failing)
	}
}

// report writes a pass that did something to the journal and the log, and the state of the loop to
// health if it changed.
func (r *runner[Obj]) report(round *inspect.Round) {
	if launched := r.budget.workers && round.Changes+round.Waited > 0; launched || len(r.ops) > 0 || round.Prune != nil {
		r.sequence++
		round.Sequence = r.sequence
		round.Took = r.now() - r.began
		r.journal.Add(round, r.ops)
		moving := r.workers.Moving(r.now())
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
		r.stats.addPrune(round.Prune)
		r.publishState()
	}
	r.logRound()
	r.forgetOperations()
	r.reportHealth()
}

// reportHealth reports the state of the loop to health, if it changed.
func (r *runner[Obj]) reportHealth() {
	now := r.stats.state.Load()
	if !r.health.IsNews(now.health) {
		return
	}
	d := health.Details{}
	if now.health.Stuck > 0 {
		d.Stuck = r.view.stuckLines()
	}
	if now.health.Breaker == "" && now.health.Failing > 0 {
		for failure := range r.core.Failures {
			if len(d.Failures) == health.MaxExamples {
				break
			}
			d.Failures = append(d.Failures, failure)
		}
	}
	r.health.Tell(now.health, d)
}

// newReporter returns the reporter to health. It also reports a call on the goroutine of the loop
// that takes long.
func (l *Loop[Obj]) newReporter() *health.Reporter {
	limit := func() time.Duration { return max(execute.Long, execute.Patience(l.settings.Load().Timeout)) }
	return health.New(health.Calls{Now: l.now, Limit: limit, Busy: func() string { return l.view.busy() }})
}

// stuckLines returns a line for each stuck call of a worker, the longest first. Safe from any goroutine.
func (v *view[Obj]) stuckLines() (lines []string) {
	for j := range v.workers.StuckJobs {
		first, others := &j.Ops[0], ""
		if n := len(j.Ops) - 1; n > 0 {
			others = " and of " + count(n, "other object")
		}
		lines = append(lines, fmt.Sprintf("%s of %s%s is stuck, running since %s",
			execute.NameOf(first.Deleted), rows.KeyText(v.rows.Key(first.Obj)), others, v.timeOf(j.Began).Format(time.RFC3339)))
	}
	return lines
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

// classifyErrors sets the classes of the failures of a round. It is called without a lock, because the
// functions of the program that it calls may end the goroutine.
func (r *runner[Obj]) classifyErrors() {
	var last *core.Operation[Obj]
	for i := range r.ops {
		op := &r.ops[i]
		if !op.HasFailed() {
			continue
		}
		op.Class = r.classes.ByFunction(op.Err)
		switch {
		case op.Class != "":
		case last != nil && *last.Text == *op.Text:
			// Most failures that follow each other have the same text.
			op.Class = last.Class
		default:
			op.Class, last = r.classes.ByText(*op.Text, op.Row), op
		}
	}
}
