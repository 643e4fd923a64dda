// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
)

// Pass is how far a loop is at the end of a pass.
type Pass struct {
	// Seen is the revision up to which all has been seen. A second cursor has seen what is after
	// TipFrom and up to TipUpTo; both are 0 if there is none.
	Seen, TipFrom, TipUpTo statedb.Revision
	// Refreshing is how many refreshes are on their way, without those that are stuck.
	Refreshing int
}

// Calls are calls of operations for objects some of which were refreshed.
type Calls struct {
	// Longest is how long the longest call took; 0 if nothing was refreshed.
	Longest time.Duration
	// Took is how long all of them did.
	Took time.Duration
	// Succeeded: some object was refreshed.
	Succeeded bool
}

// Add adds a call that took some time.
func (c *Calls) Add(took time.Duration, succeeded bool) {
	c.Longest = max(c.Longest, took, 1)
	c.Took += took
	c.Succeeded = c.Succeeded || succeeded
}

// gate is where the refresher waits for the loop. The refresher marks a batch and waits; the loop
// says when that has been seen, and no refresh is on its way any more but such as are stuck.
type gate struct {
	// open: the refresher wants to know. While it does not, the loop pays nothing.
	open atomic.Bool

	mu sync.Mutex
	// pass is the last pass.
	pass Pass
	// The batch was written at the revisions after one and up to another; through is closed
	// when it is through, nil if nothing waits.
	after, upTo statedb.Revision
	through     chan struct{}
	// calls are those since the gate was opened.
	calls Calls
}

// begin opens the gate: it is called before a batch is marked. A wait before that was given up.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass.Seen, g.pass.TipUpTo, g.calls, g.through = 0, 0, Calls{}, nil
	g.open.Store(true)
}

// wait returns a channel that is closed when the batch is through that was written at the
// revisions after one and up to another.
func (g *gate) wait(after, upTo statedb.Revision) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	through := make(chan struct{})
	g.after, g.upTo, g.through = after, upTo, through
	if after == upTo {
		// Nothing was marked, so that no pass need follow.
		g.pass.Seen, g.pass.Refreshing = upTo, 0
	}
	g.check()
	return through
}

// sum returns the calls since the gate was opened.
func (g *gate) sum() Calls {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// passed takes in a pass, if the gate is open.
func (g *gate) passed(p Pass) {
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = p
	g.check()
}

// ran takes in calls, if the gate is open.
func (g *gate) ran(c Calls) {
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls.Longest = max(g.calls.Longest, c.Longest)
	g.calls.Took += c.Took
	g.calls.Succeeded = g.calls.Succeeded || c.Succeeded
}

// check ends the wait if the time has come, and closes the gate. It is called with the lock.
func (g *gate) check() {
	p := &g.pass
	seen := p.Seen >= g.upTo || p.TipFrom <= g.after && p.TipUpTo >= g.upTo
	if g.through != nil && p.Refreshing == 0 && seen {
		close(g.through)
		g.through = nil
		g.open.Store(false)
	}
}
