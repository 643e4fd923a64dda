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
// the others for its own, so that a row is Done that only one of them has applied.
const SharedField = "two reconcilers share one status field"

// MaxExamples bounds the errors and the open breakers that are named, so that the cost does not
// grow with their number.
const MaxExamples = 10

// Condition is all that is reported to health, except examples.
type Condition struct {
	// Objects is how many objects the table has.
	Objects, Failing, Blocked, Paused int
	// Failures changes when an object begins to fail, ceases to, or fails with another error.
	Failures uint64
	// PausedWhole: the whole reconciler is paused.
	PausedWhole bool
	// PruneFailure is the text of the last prune's error; empty if it succeeded.
	PruneFailure string
	// Stuck is how many operations of workers take too long. StuckChanges changes when others do.
	Stuck, StuckChanges int
	// Breakers is how many are open. BreakerChanges changes when others are, or they have other
	// errors.
	Breakers       int
	BreakerChanges uint64
	// Shared names the reconcilers that share the status field, one in a line; empty if none do.
	Shared string
}

// Details are lines for what is wrong. Lines that the condition does not need are ignored.
type Details struct {
	// Breakers are for the open breakers, Stuck for the operations that take too long.
	Breakers, Stuck []string
	// Failures are the errors of objects, up to [MaxExamples]. They are not named while a breaker
	// is open.
	Failures []string
}

// wrong reports whether there are problems.
func (c *Condition) wrong() bool {
	return c.Shared != "" || c.Breakers > 0 || c.numErrors() > 0 || c.Stuck > 0
}

// numErrors returns how many things have failed.
func (c *Condition) numErrors() int {
	if c.PruneFailure != "" {
		return c.Failing + 1
	}
	return c.Failing
}

// reported returns the condition without what is not reported: while there are problems, that other
// numbers change is no news.
func (c Condition) reported() Condition {
	if c.wrong() {
		c.Objects, c.Blocked, c.Paused = 0, 0, 0
	}
	return c
}

// problems returns what is wrong, in short; empty if nothing is. called: the loop itself is in a
// call that takes too long.
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

// okMessage returns the message for a condition without problems.
func (c *Condition) okMessage() string {
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

// examples joins what is wrong: the shared status field, open breakers, stuck operations, the error
// of a prune, and those of objects; nil if nothing is.
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
