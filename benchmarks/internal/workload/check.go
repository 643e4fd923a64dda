// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// checks collects what does not add up at the end of a run.
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

// rows checks that the table has so many rows of each kind, and none of a kind not named.
func (c *checks) rows(sys subject.System, want map[subject.Kind]uint64) {
	got := sys.Count()
	for _, kind := range []subject.Kind{subject.Waiting, subject.Done, subject.Failed, subject.Blocked} {
		c.equal(fmt.Sprintf("rows that are %s", kind), got[kind], want[kind])
	}
}

// calls checks how often each of the system's targets was called.
func (c *checks) calls(sys subject.System, updates, deletes uint64) {
	for i, target := range sys.Targets() {
		c.equal(fmt.Sprintf("Update calls to target %d", i), target.Updates.Load(), updates)
		c.equal(fmt.Sprintf("Delete calls to target %d", i), target.Deletes.Load(), deletes)
	}
}

func (c *checks) err() error { return errors.Join(c.failed...) }

// checkDone is the end of most runs: all n rows done, each with one call.
func checkDone(sys subject.System, n uint64) error {
	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Done: n})
	c.calls(sys, n, 0)
	return c.err()
}
