// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/pace"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// count tells metrics what a pass did, if it ran anything or the number of failing objects
// changed: before those are woken who wait for it, and before a prune, which may take long.
func (l *Loop[Obj]) count() {
	if len(l.batch.tasks) == 0 && l.core.Failing() == l.reporter.last.failing {
		return
	}
	failed := 0
	for i := range l.batch.attempts {
		if a := &l.batch.attempts[i]; a.result == resultFailed || a.result == resultTerminal {
			failed++
		}
	}
	l.metrics.ReconciliationErrors(failed, l.core.Failing())
}

// report says what a pass did: to the journal if it did anything, to health if that changed.
func (l *Loop[Obj]) report(r *inspect.Round, txn statedb.ReadTxn, began time.Duration) {
	tasks := l.batch.tasks
	if launched := l.pooled && r.Changes+r.Waited > 0; launched || len(tasks) > 0 || r.Prune != nil {
		l.sequence++
		r.Sequence = l.sequence
		r.Took = l.now() - began
		l.record(r)
		moving := l.pool.moving()
		if l.pooled {
			moving += len(tasks)
		}
		items := r.Changes + r.Waited
		l.pace.Ran(pace.Round{
			Began: began, Items: items, Refreshes: r.Refreshes, Waited: r.Waited,
			More: items >= l.set.RoundSize || l.observer.behind.is, Moving: moving,
		})
	}
	l.accountPrune(r)
	l.complain()
	l.recycle()
	l.reportHealth(l.rows.Table.NumObjects(txn))
}

// journalResults are the results of operations as the journal has them.
var journalResults = [...]journal.Result{
	resultDone: journal.Done, resultFailed: journal.Failed, resultTerminal: journal.Terminal,
	resultBlocked: journal.Blocked, resultRequeue: journal.Requeued,
}

// record adds a round, and what was run in it, to the journal.
func (l *Loop[Obj]) record(r *inspect.Round) {
	w := l.journal.Begin(r)
	defer w.End()
	for i := range l.batch.tasks {
		t, a := &l.batch.tasks[i], &l.batch.attempts[i]
		w.Add(journal.Entry[Obj]{
			Object: t.object, Revision: t.revision, Took: t.took, Text: a.text, Note: a.note, Attempt: a.number,
			Result: journalResults[a.result], Cause: a.cause, Deleted: t.deleted, Lost: a.lost, Conflict: a.conflict,
		})
	}
}

// condition is everything that health says anything of.
type condition struct {
	objects, failing, blocked, paused int
	failures                          uint64
	pauseWhole                        bool
	pruneFailure                      string
	// stuck is how many operations in the pool take long; it is other ones when
	// stuckChanges changes.
	stuck, stuckChanges int
	// breakers is how many are open; it is other ones, or they have other errors, when
	// breakerChanges changes.
	breakers       int
	breakerChanges uint64
	// shared names the reconcilers that share the status field, a line each; empty if none do.
	shared string
	// call is the one that the loop itself has been in for long; empty if there is none.
	call string
}

// reporter remembers what health has been told: by the loop, and by its watchdog.
type reporter struct {
	health cell.Health

	mu   sync.Mutex
	told bool
	// over: the loop has ended with an error, and nothing else is told.
	over bool
	last condition
	// examples are those of the last condition, without the call.
	examples error
}

// tell tells health of a condition if that is news. examples are asked for if it is wrong.
func (r *reporter) tell(now condition, examples func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.told && now == r.last {
		return
	}
	r.told, r.last, r.examples = true, now, nil
	if now.wrong() {
		r.examples = examples()
	}
	r.say(r.examples)
}

// tellCall tells health of a call that the loop has been in for long, beside what it has been
// told; of none if the call is empty.
func (r *reporter) tellCall(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || call == r.last.call {
		return
	}
	r.last.call = call
	examples := r.examples
	if call != "" {
		examples = errors.Join(errors.New(call), examples)
	}
	r.say(examples)
}

// say tells health of the last condition. It is called with the lock.
func (r *reporter) say(examples error) {
	if !r.last.wrong() {
		r.health.OK(r.last.fine())
		return
	}
	r.health.Degraded(strings.Join(r.last.problems(), ", "), examples)
}

// ended tells health that the loop has ended with an error. It is the last that health is told.
func (r *reporter) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.health.Degraded("The reconciler has ended", err)
}

func (l *Loop[Obj]) reportHealth(objects int) {
	now := condition{
		objects:      objects,
		failing:      l.core.Failing(),
		blocked:      l.core.NumBlocked(),
		paused:       l.core.Count(core.Paused),
		failures:     l.core.FailureVersion(),
		pauseWhole:   l.pause.whole,
		pruneFailure: l.pruner.failure,
		shared:       l.sharing.text(),
		breakers:     l.core.NumOpenBreakers(), breakerChanges: l.core.OpenBreakersVersion(),
	}
	now.stuck, now.stuckChanges = l.pool.numNamed()
	if now.wrong() {
		// Health says nothing of these then: that others come and go is no news.
		now.objects, now.blocked, now.paused = 0, 0, 0
	}
	l.reporter.tell(now, func() error { return l.examples(&now) })
}

// numErrors returns how many things have failed.
func (c *condition) numErrors() int {
	if c.pruneFailure != "" {
		return c.failing + 1
	}
	return c.failing
}

// numStuck returns how many operations take long.
func (c *condition) numStuck() int {
	if c.call != "" {
		return c.stuck + 1
	}
	return c.stuck
}

// wrong reports whether there are problems.
func (c *condition) wrong() bool {
	return c.shared != "" || c.breakers > 0 || c.numErrors() > 0 || c.numStuck() > 0
}

// problems returns what is wrong, in short; nothing if all is well.
func (c *condition) problems() []string {
	var problems []string
	if c.shared != "" {
		problems = append(problems, errSharedField.Error())
	}
	if c.breakers > 0 {
		problems = append(problems, "breaker open")
	}
	if n := c.numErrors(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d error(s)", n))
	}
	if n := c.numStuck(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d operation(s) stuck", n))
	}
	if len(problems) > 0 && c.pauseWhole {
		problems = append(problems, "paused")
	}
	return problems
}

// fine says what there is, if nothing is wrong.
func (c *condition) fine() string {
	message := fmt.Sprintf("OK, %d object(s)", c.objects)
	if c.blocked > 0 {
		message += fmt.Sprintf(", %d blocked", c.blocked)
	}
	if c.paused > 0 {
		message += fmt.Sprintf(", %d paused", c.paused)
	}
	if c.pauseWhole {
		message += ", paused"
	}
	return message
}

// stuckLines has a line for each operation in the pool that takes long. Safe from any
// goroutine.
func (v *view[Obj]) stuckLines() (lines []string) {
	for _, s := range v.pool.stuckFlights() {
		operation := OpUpdate
		if s.deleted {
			operation = OpDelete
		}
		what := "takes long"
		if s.left {
			what = "ignores its deadline"
		}
		others := ""
		if s.more > 0 {
			others = " and of " + count(s.more, "other object")
		}
		lines = append(lines, fmt.Sprintf("%s of %s%s %s, running since %s",
			operation, rows.KeyText(v.rows.Key(s.object)), others, what, v.timeOf(s.since).Format(time.RFC3339)))
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

// maxExamples bounds the errors and the open breakers that health is told, so that it costs
// the same whatever fails.
const maxExamples = 10

// examples joins what is wrong: a shared status field, open breakers, what is stuck, the errors of a failing
// prune, and those of the objects that are unreconciled the longest. While a breaker is
// open, its line says what the objects' would.
func (l *Loop[Obj]) examples(c *condition) error {
	var errs []error
	if c.shared != "" {
		errs = append(errs, errors.New(c.shared))
	}
	if c.breakers > 0 {
		errs = append(errs, errors.New(strings.Join(l.view.breakerLines(l.view.openBreakers()), "\n")))
	}
	if c.stuck > 0 {
		errs = append(errs, errors.New(few(l.view.stuckLines(), "operation")))
	}
	if c.pruneFailure != "" {
		errs = append(errs, errors.New(text.Printable(c.pruneFailure)))
	}
	if c.breakers > 0 {
		return errors.Join(errs...)
	}
	told := c.numErrors() - c.failing
	for failure := range l.core.Failures {
		if told == maxExamples {
			break
		}
		told++
		errs = append(errs, errors.New(text.Printable(failure)))
	}
	if omitted := c.numErrors() - told; omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}

// few returns the first lines, and how many further things there are.
func few(lines []string, thing string) string {
	if n := len(lines); n > maxExamples {
		lines = append(lines[:maxExamples:maxExamples], fmt.Sprintf("%d further %ss omitted", n-maxExamples, thing))
	}
	return strings.Join(lines, "\n")
}

// noHealth is the health of a loop that nobody asks.
type noHealth struct{}

func (noHealth) OK(string)                   {}
func (noHealth) Stopped(string)              {}
func (noHealth) Degraded(string, error)      {}
func (noHealth) NewScope(string) cell.Health { return noHealth{} }
func (noHealth) Close()                      {}
