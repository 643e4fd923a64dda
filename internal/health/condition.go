// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"errors"
	"fmt"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// SharedField is the problem of reconcilers that share a status field: each takes the statuses of
// the others for its own, so that a row is Done which only one of them has applied.
const SharedField = "two reconcilers share one status field"

// MaxExamples bounds the errors and the open breakers that are named, so that it costs the same
// whatever fails.
const MaxExamples = 10

// Condition is everything that health says anything of.
type Condition struct {
	// Objects is how many the table has.
	Objects, Failing, Blocked, Paused int
	// Failures changes when objects begin to fail, stop, or fail with another error.
	Failures uint64
	// PausedWhole: the reconciler is paused.
	PausedWhole bool
	// PruneFailure is the text of the last prune's; empty if it succeeded.
	PruneFailure string
	// Stuck is how many operations of workers take long; it is other ones when StuckChanges
	// changes.
	Stuck, StuckChanges int
	// Breakers is how many are open; it is other ones, or they have other errors, when
	// BreakerChanges changes.
	Breakers       int
	BreakerChanges uint64
	// Shared names the reconcilers that share the status field, a line each; empty if none do.
	Shared string
}

// Details are lines for what is wrong. Those that a condition does not ask for are not used.
type Details struct {
	// Breakers are for those that are open, Stuck for the operations that take long.
	Breakers, Stuck []string
	// Failures are the errors of objects, as many as there are or [MaxExamples]. While a
	// breaker is open, its line says what they would.
	Failures []string
}

// Wrong reports whether there are problems.
func (c *Condition) Wrong() bool {
	return c.Shared != "" || c.Breakers > 0 || c.numErrors() > 0 || c.Stuck > 0
}

// numErrors returns how many things have failed.
func (c *Condition) numErrors() int {
	if c.PruneFailure != "" {
		return c.Failing + 1
	}
	return c.Failing
}

// told returns what is told of the condition.
func (c Condition) told() Condition {
	if c.Wrong() {
		// Health says nothing of these then: that others come and go is no news.
		c.Objects, c.Blocked, c.Paused = 0, 0, 0
	}
	return c
}

// problems returns what is wrong, in short; nothing if all is well. called: the loop itself is in a
// call that takes long.
func (c *Condition) problems(called bool) string {
	var problems []string
	if c.Shared != "" {
		problems = append(problems, SharedField)
	}
	if c.Breakers > 0 {
		problems = append(problems, "breaker open")
	}
	if n := c.numErrors(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d error(s)", n))
	}
	stuck := c.Stuck
	if called {
		stuck++
	}
	if stuck > 0 {
		problems = append(problems, fmt.Sprintf("%d operation(s) stuck", stuck))
	}
	if len(problems) > 0 && c.PausedWhole {
		problems = append(problems, "paused")
	}
	return strings.Join(problems, ", ")
}

// fine says what there is, if nothing is wrong.
func (c *Condition) fine() string {
	message := fmt.Sprintf("OK, %d object(s)", c.Objects)
	if c.Blocked > 0 {
		message += fmt.Sprintf(", %d blocked", c.Blocked)
	}
	if c.Paused > 0 {
		message += fmt.Sprintf(", %d paused", c.Paused)
	}
	if c.PausedWhole {
		message += ", paused"
	}
	return message
}

// examples joins what is wrong: a shared status field, open breakers, what is stuck, the error of a
// failing prune, and those of objects; nil if nothing is.
func (c *Condition) examples(d Details) error {
	var errs []error
	add := func(line string) { errs = append(errs, errors.New(line)) }
	if c.Shared != "" {
		add(c.Shared)
	}
	if c.Breakers > 0 {
		add(strings.Join(d.Breakers, "\n"))
	}
	if c.Stuck > 0 {
		add(Few(d.Stuck, "operation"))
	}
	if c.PruneFailure != "" {
		add(text.Printable(c.PruneFailure))
	}
	if c.Breakers > 0 {
		return errors.Join(errs...)
	}
	named := c.numErrors() - c.Failing
	for _, failure := range d.Failures {
		if named == MaxExamples {
			break
		}
		named++
		add(text.Printable(failure))
	}
	if omitted := c.numErrors() - named; omitted > 0 {
		add(fmt.Sprintf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}

// Few joins the first lines, [MaxExamples] at most, and how many further things there are.
func Few(lines []string, thing string) string {
	if n := len(lines); n > MaxExamples {
		lines = append(lines[:MaxExamples:MaxExamples], fmt.Sprintf("%d further %ss omitted", n-MaxExamples, thing))
	}
	return strings.Join(lines, "\n")
}
