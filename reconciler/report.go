// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/errorclass"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// noHealth returns the health of a loop whose health is not reported.
var noHealth = health.None

// account publishes the state after a round, and adds the round to the figures and to metrics. It is
// called before waits are woken, so that they find the round counted.
func (r *runner[Obj]) account(round *inspect.Round) {
	setClasses(r.shared.rows, r.ops)
	now := r.publishState()
	var origins *inputs.Origins
	if of := r.shared.rows; len(r.ops) > 0 {
		origins = inputs.OriginsOf(of.DB, of.DB.ReadTxn(), of.Table.Name())
	}
	failed := r.shared.stats.addRound(round, r.ops, r.this.began, r.life.now(), origins)
	if len(r.ops) > 0 || now.health.Failing != r.reports.health.Failing() {
		r.reports.metrics.ReconciliationErrors(failed, now.health.Failing)
	}
}

// report writes a pass that did something to the journal and the log, and the state of the loop to
// health if it changed.
func (r *runner[Obj]) report(round *inspect.Round) {
	if launched := r.this.budget.workers && round.Changes+round.Waited > 0; launched || len(r.ops) > 0 || round.Prune != nil || round.Resync != nil {
		round.Took = r.life.now() - r.this.began
		r.shared.stats.journal.Add(round, r.ops)
		moving := r.workers.Moving(r.life.now())
		if r.this.budget.workers {
			moving += len(r.ops)
		}
		items := round.Changes + round.Waited
		r.pace.Ran(pace.Round{
			Began: r.this.began, Items: items, Refreshes: round.Refreshes, Waited: round.Waited,
			More: items >= r.set.RoundSize || moving == 0 && r.observer.Behind(), Moving: moving,
		})
	}
	if round.Prune != nil || round.Resync != nil {
		r.shared.stats.addPrune(round)
		r.publishState()
	}
	logRound(r.shared, r.ops)
	// The operations of the pass must keep no object in memory.
	clear(r.ops)
	r.ops = r.ops[:0]
	r.workers.Forget()
	r.reports.tellHealth(r.shared.stats.state.Load(), r.core.Index)
}

// reports tells others how a loop is: health and metrics.
type reports[Obj any] struct {
	view    *view[Obj]
	health  *health.Reporter
	metrics metrics.Handle
	// pruneLogged is when each message about prunes that fail was last logged.
	pruneLogged map[string]time.Duration
}

// mayLogPrune reports whether a message about a prune that failed may be logged now, as often as those of a class
// of objects, and notes that it is. Each message has a time of its own: one that is frequent does not hide another.
func (p *reports[Obj]) mayLogPrune(message string, now time.Duration) bool {
	if at, logged := p.pruneLogged[message]; logged && now-at < errorclass.LogEvery {
		return false
	}
	if p.pruneLogged == nil {
		p.pruneLogged = map[string]time.Duration{}
	}
	p.pruneLogged[message] = now
	return true
}

// tellHealth reports a state to health, if it changed. keys has the failures of objects.
func (p *reports[Obj]) tellHealth(now *state, keys *core.Index[Obj]) {
	if !p.health.IsNews(now.health) {
		return
	}
	d := health.Details{}
	if now.health.Stuck > 0 {
		d.Stuck = p.view.stuckLines()
	}
	if now.health.Breaker == "" && now.health.Failing > 0 {
		d.Failures = failures(keys, health.MaxExamples)
	}
	p.health.Tell(now.health, d)
}

// maxSeen bounds the keys that failures visits.
const maxSeen = 1000

// failures returns the errors of keys that have failed for longest, up to a number. It may miss some behind many
// keys that wait for something else.
func failures[Obj any](keys *core.Index[Obj], limit int) (texts []string) {
	seen := 0
	keys.Unreconciled(0, func(u core.UnreconciledKey[Obj]) bool {
		seen++
		if d := u.Describe(); d.Failure != "" {
			texts = append(texts, d.Failure)
		}
		return len(texts) < limit && seen < maxSeen
	})
	return texts
}

// newReporter returns a reporter to health. It also reports a call on the goroutine of the loop that takes
// long. busy returns the text of that.
func newReporter(l *life, s *settings, busy func() string) *health.Reporter {
	limit := func() time.Duration { return max(execute.Long, execute.StuckAfter(s.Load().Timeout)) }
	return health.New(health.Calls{Now: l.now, Limit: limit, Busy: busy})
}

// stuckLines returns a line for each stuck call of a worker, the longest first. Safe from any goroutine.
func (v *view[Obj]) stuckLines() (lines []string) {
	for j := range v.workers.StuckJobs {
		first, others := &j.Ops[0], ""
		if n := len(j.Ops) - 1; n > 0 {
			others = " and of " + count(n, "other object")
		}
		lines = append(lines, fmt.Sprintf("%s of %s%s is stuck, running since %s",
			execute.NameOf(first.Deleted), text.Key(v.rows.Key(first.Obj)), others, v.life.timeOf(j.Began).Format(time.RFC3339)))
	}
	return lines
}

// logRound logs the failures that errorclass has chosen for the log, and at level debug every
// operation.
func logRound[Obj any](s *shared[Obj], ops []core.Operation[Obj]) {
	for _, f := range s.stats.classes.TakeLines() {
		s.setup.log.Warn("operation failed", "operation", f.Operation, "key", s.rows.Name(f.Object), "revision", f.Revision,
			"attempt", f.Attempt, "error", f.Text, "repeated", f.Repeated)
	}
	if !s.setup.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range ops {
		op := &ops[i]
		args := []any{"operation", execute.NameOf(op.Deleted), "key", s.rows.Name(op.Row), "revision", op.RowRevision,
			"attempt", op.Failures + 1, "cause", op.Turn.Cause.String(), "result", op.Outcome.Kind.String(), "took", op.Run.Took}
		if op.Outcome.Text != nil {
			args = append(args, "error", *op.Outcome.Text)
		}
		s.setup.log.Debug("operation", args...)
	}
}

// setClasses sets the classes of the failures of a round. It is called without a lock, because the
// functions of the program that it calls may end the goroutine.
func setClasses[Obj any](of *rows.Rows[Obj], ops []core.Operation[Obj]) {
	var last *core.Operation[Obj]
	for i := range ops {
		op := &ops[i]
		if !op.Outcome.HasFailed() {
			continue
		}
		if last != nil && *last.Outcome.Text == *op.Outcome.Text {
			// Most failures that follow each other have the same text.
			op.Outcome.Class = last.Outcome.Class
			continue
		}
		op.Outcome.Class, last = outcome.Class(of, *op.Outcome.Text, op.Row), op
	}
}
