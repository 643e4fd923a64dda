// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
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
func (l *Loop[Obj]) report(r *Round, txn statedb.ReadTxn, began time.Duration) {
	tasks, attempts := l.batch.tasks, l.batch.attempts
	if launched := l.pooled && r.Changes+r.Waited > 0; launched || len(tasks) > 0 || r.Prune != nil {
		l.sequence++
		r.Sequence = l.sequence
		r.Took = l.now() - began
		l.journal.add(*r, tasks, attempts)
		flying := l.pool.inFlight
		if l.pooled {
			flying += len(tasks)
		}
		l.pace.round(began, r, r.Changes+r.Waited >= l.set.RoundSize || l.observer.behind.is, flying)
	}
	l.accountPrune(r)
	l.complain()
	l.recycle()
	l.reportHealth(l.cfg.Table.NumObjects(txn))
}

// condition is everything that health says anything of.
type condition struct {
	objects, failing, blocked, paused int
	failures                          uint64
	pauseWhole                        bool
	pruneFailure                      string
	// stuck and breakers are texts: one line for each.
	stuck, breakers string
}

// reporter remembers what health has been told.
type reporter struct {
	health cell.Health
	told   bool
	last   condition
	// breakers is the text for the open breakers as of a version of the core's.
	breakers        string
	breakersVersion uint64
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
		stuck:        l.stuckText(),
		breakers:     l.breakersText(),
	}
	wrong := now.wrong()
	if wrong {
		// Health says nothing of these then: that others come and go is no news.
		now.objects, now.blocked, now.paused = 0, 0, 0
	}
	if l.reporter.told && now == l.reporter.last {
		return
	}
	l.reporter.told, l.reporter.last = true, now

	if wrong {
		l.reporter.health.Degraded(strings.Join(now.problems(), ", "), l.examples(&now))
		return
	}
	l.reporter.health.OK(now.fine())
}

// numErrors returns how many things have failed.
func (c *condition) numErrors() int {
	if c.pruneFailure != "" {
		return c.failing + 1
	}
	return c.failing
}

// wrong reports whether there are problems.
func (c *condition) wrong() bool { return c.breakers != "" || c.numErrors() > 0 || c.stuck != "" }

// problems returns what is wrong, in short; nothing if all is well.
func (c *condition) problems() []string {
	var problems []string
	if c.breakers != "" {
		problems = append(problems, "breaker open")
	}
	if n := c.numErrors(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d error(s)", n))
	}
	if c.stuck != "" {
		problems = append(problems, fmt.Sprintf("%d operation(s) stuck", 1+strings.Count(c.stuck, "\n")))
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

// stuckText has a line for each operation that was left behind.
func (l *Loop[Obj]) stuckText() string {
	if !l.pool.any() {
		return ""
	}
	return strings.Join(l.stuckLines(), "\n")
}

// stuckLines are those lines. Safe from any goroutine.
func (l *Loop[Obj]) stuckLines() (lines []string) {
	for _, s := range l.pool.stuckFlights() {
		operation := OpUpdate
		if s.deleted {
			operation = OpDelete
		}
		lines = append(lines, fmt.Sprintf("%s of %s ignores its deadline, running since %s",
			operation, keyText(l.indexer.ObjectToKey(s.object)), l.timeOf(s.since).Format(time.RFC3339)))
	}
	return lines
}

// breakersText has the lines for the open breakers. It is made when one of them has changed,
// not in every round.
func (l *Loop[Obj]) breakersText() string {
	r := &l.reporter
	if version := l.core.OpenBreakersVersion(); version != r.breakersVersion {
		r.breakersVersion = version
		r.breakers = strings.Join(l.breakerLines(l.openBreakers()), "\n")
	}
	return r.breakers
}

// openBreakers are the breakers that are open, for those who name them: the first few, and
// how many there are in all, so that it costs the same however many are open.
type openBreakers struct {
	first []core.OpenBreaker
	n     int
}

// openBreakers returns those of the core.
func (l *Loop[Obj]) openBreakers() openBreakers {
	return openBreakers{l.core.OpenBreakers(maxExamples), l.core.NumOpenBreakers()}
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
func (l *Loop[Obj]) breakerLines(open openBreakers) (lines []string) {
	for i := range open.first {
		lines = append(lines, l.breakerText(&open.first[i]))
	}
	if n := open.omitted(); n > 0 {
		lines = append(lines, omittedBreakers(n))
	}
	return lines
}

// omittedBreakers is the line for the breakers that are not named.
func omittedBreakers(n int) string { return fmt.Sprintf("%d further breakers omitted", n) }

func (l *Loop[Obj]) breakerText(b *core.OpenBreaker) string {
	of := ""
	if b.Class != "" {
		of = fmt.Sprintf(" for %q", b.Class)
	}
	return fmt.Sprintf("breaker%s open since %s: %s", of, l.timeOf(b.Since).Format(time.RFC3339), b.Failure)
}

// timeOf returns what the wall clock shows at a time of the loop's.
func (l *Loop[Obj]) timeOf(at time.Duration) time.Time { return l.started.Add(at) }

// keyText returns a key for people to read: as it is if it is text, else in hexadecimal.
func keyText(key []byte) string {
	if text := string(key); utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable) {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("0x%x", key)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// maxExamples bounds the errors and the open breakers that health is told, so that it costs
// the same whatever fails.
const maxExamples = 10

// examples joins what is wrong: what is stuck, open breakers, the errors of a failing
// prune, and those of the objects that are unreconciled the longest. While a breaker is
// open, its line says what the objects' would.
func (l *Loop[Obj]) examples(c *condition) error {
	var errs []error
	for _, text := range []string{c.breakers, c.stuck} {
		if text != "" {
			errs = append(errs, errors.New(text))
		}
	}
	if c.pruneFailure != "" {
		errs = append(errs, errors.New(c.pruneFailure))
	}
	if c.breakers != "" {
		return errors.Join(errs...)
	}
	told := c.numErrors() - c.failing
	for text := range l.core.Failures {
		if told == maxExamples {
			break
		}
		told++
		errs = append(errs, errors.New(text))
	}
	if omitted := c.numErrors() - told; omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}

// noHealth is the health of a loop that nobody asks.
type noHealth struct{}

func (noHealth) OK(string)                   {}
func (noHealth) Stopped(string)              {}
func (noHealth) Degraded(string, error)      {}
func (noHealth) NewScope(string) cell.Health { return noHealth{} }
func (noHealth) Close()                      {}
