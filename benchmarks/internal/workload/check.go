// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// checks collects the checks that failed at the end of a run.
type checks struct{ failed []error }

func (c *checks) equal(what string, got, want uint64) {
	if got != want {
		c.failed = append(c.failed, fmt.Errorf("check failed: %s: got %d, want %d", what, got, want))
	}
}

func (c *checks) atMost(what string, got, want uint64) {
	if got > want {
		c.failed = append(c.failed, fmt.Errorf("check failed: %s: got %d, want at most %d", what, got, want))
	}
}

func (c *checks) atLeast(what string, got, want uint64) {
	if got < want {
		c.failed = append(c.failed, fmt.Errorf("check failed: %s: got %d, want at least %d", what, got, want))
	}
}

// rows checks the number of rows of each kind; a kind that is not named must have none.
func (c *checks) rows(sys subject.System, want map[subject.Kind]uint64) {
	got := sys.Count()
	for _, kind := range []subject.Kind{subject.Waiting, subject.Done, subject.Failed, subject.Blocked} {
		c.equal(fmt.Sprintf("rows that are %s", kind), got[kind], want[kind])
	}
}

// calls checks the number of calls of each target of the system.
func (c *checks) calls(sys subject.System, updates, deletes uint64) {
	for i, target := range sys.Targets() {
		c.equal(fmt.Sprintf("Update calls to target %d", i), target.Updates.Load(), updates)
		c.equal(fmt.Sprintf("Delete calls to target %d", i), target.Deletes.Load(), deletes)
	}
}

// add adds the error of another check; nil is none.
func (c *checks) add(err error) {
	if err != nil {
		c.failed = append(c.failed, err)
	}
}

func (c *checks) err() error { return errors.Join(c.failed...) }

// checkDone is the final check of most runs: n rows, all done, each with one call.
func checkDone(sys subject.System, n uint64) error {
	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.calls(sys, n, 0)
	return c.err()
}
