// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/internal/text"
)

// MaxExamples bounds the errors that are named, so that the cost does not grow with their number.
const MaxExamples = 10

// Condition is all that health reports, except for the examples.
type Condition struct {
	// Objects is the number of objects in the table. The others count objects in these states.
	Objects, Failing, Blocked, Paused int
	// Failures changes when an object begins or ceases to fail, or fails with another error.
	Failures uint64
	// PausedWhole reports whether the whole reconciler is paused.
	PausedWhole bool
	// PruneFailure is the text of the last prune's error; empty if it succeeded. ResyncAwaits reports whether
	// it was a resync that awaits approval, which is no error.
	PruneFailure string
	ResyncAwaits bool
	// Listing is a line about the listing of the target; empty if nothing is wrong with it. Waits reports whether the
	// loop waits for the first one.
	Listing string
	Waits   bool
	// Unheld is the number of objects whose repairs do not hold. They are failing, too.
	Unheld int
	// Stuck is the number of operations on workers that take too long. StuckChanges changes when that
	// set changes.
	Stuck, StuckChanges int
	// NoWorker reports whether all workers are stuck.
	NoWorker bool
	// Breaker is a line about the breaker; empty if it is not open.
	Breaker string
}

// Details are texts for the problems of a condition. Texts that the condition does not need are
// ignored.
type Details struct {
	// Stuck has a line for each operation that takes too long.
	Stuck []string
	// Failures are the errors of objects, up to [MaxExamples]. They are not reported while the breaker
	// is open.
	Failures []string
}

// wrong reports whether there are problems.
func (c *Condition) wrong() bool {
	return c.Breaker != "" || c.numErrors() > 0 || c.ResyncAwaits || c.Listing != "" || c.Stuck > 0
}

// numErrors returns the number of errors: those of objects, and that of the prune.
func (c *Condition) numErrors() int {
	if c.PruneFailure != "" && !c.ResyncAwaits {
		return c.Failing + 1
	}
	return c.Failing
}

// reported returns the part of the condition whose change is news. While there are problems, changes
// of the other counts are not.
func (c Condition) reported() Condition {
	if c.wrong() {
		c.Objects, c.Blocked, c.Paused = 0, 0, 0
	}
	return c
}

// problems returns a short text about the problems; empty if there are none. called reports whether
// the loop itself is in a call that takes too long.
func (c *Condition) problems(called bool) string {
	var problems []string
	if c.Breaker != "" {
		problems = append(problems, "breaker open")
	}
	if n := c.numErrors(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d error(s)", n))
	}
	if c.ResyncAwaits {
		problems = append(problems, "a resync awaits approval")
	}
	if c.Listing != "" {
		problems = append(problems, "the target is not listed")
	}
	if c.Unheld > 0 {
		problems = append(problems, "repairs do not hold")
	}
	stuck := c.Stuck
	if called {
		stuck++
	}
	if stuck > 0 {
		problems = append(problems, fmt.Sprintf("%d operation(s) stuck", stuck))
	}
	if c.NoWorker {
		problems = append(problems, "no worker is free")
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
	if c.Waits {
		message += ", waits for the first listing of the target"
	}
	return message
}

// examples returns lines about the problems: the open breaker, stuck operations, the error of a prune,
// and the errors of objects.
func (c *Condition) examples(d Details) (lines []string) {
	failures, all := slices.Clone(d.Failures), c.Failing
	if c.Breaker != "" {
		lines = append(lines, c.Breaker)
		failures, all = nil, 0
	}
	if c.Listing != "" {
		lines = append(lines, c.Listing)
	}
	if c.PruneFailure != "" {
		failures, all = slices.Insert(failures, 0, c.PruneFailure), all+1
	}
	for i := range failures {
		failures[i] = text.Printable(failures[i])
	}
	lines = append(lines, few(d.Stuck, len(d.Stuck), "operations")...)
	return append(lines, few(failures, all, "errors")...)
}

// few returns the first lines, at most [MaxExamples], and a line with the number of the others of all things.
func few(lines []string, all int, things string) []string {
	named := min(len(lines), MaxExamples)
	lines = slices.Clone(lines[:named])
	if all > named {
		lines = append(lines, fmt.Sprintf("%d further %s omitted", all-named, things))
	}
	return lines
}
