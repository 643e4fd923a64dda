// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
)

// Pass is the state of a loop at the end of a pass.
type Pass struct {
	// Seen is the revision up to which the main cursor has handed over all changes. The catch-up
	// cursor has read those above CaughtUpFrom and up to CaughtUpTo; both are 0 if there is none.
	Seen, CaughtUpFrom, CaughtUpTo statedb.Revision
	// Refreshing is the number of refreshes that are ready or in flight, except stuck ones.
	Refreshing int
}

// Calls summarises calls of operations that refreshed at least one object.
type Calls struct {
	// Longest is the time of the longest call; 0 if nothing was refreshed.
	Longest time.Duration
	// Took is the time of all calls.
	Took time.Duration
	// Succeeded reports whether some object was refreshed successfully.
	Succeeded bool
}

// Add adds a call that took the given time.
func (c *Calls) Add(took time.Duration, succeeded bool) {
	c.Longest = max(c.Longest, took, 1)
	c.Took += took
	c.Succeeded = c.Succeeded || succeeded
}

// gate is where the refresher waits for the loop. The refresher gives a batch to the loop and waits.
// The wait ends when the loop has seen the batch, and no refresh is ready or in flight, except stuck
// ones.
type gate struct {
	// open: the refresher waits, or is about to. While it is false, the loop computes nothing for
	// it.
	open atomic.Bool

	mu sync.Mutex
	// mu guards the fields below. pass is the last pass.
	pass Pass
	// seen reports whether a loop in the state p has seen the batch. through is closed when the wait
	// ends; both are nil if there is no wait.
	seen    func(p *Pass) bool
	through chan struct{}
	// calls summarises the calls since the gate was opened.
	calls Calls
}

// begin opens the gate. It is called before a batch is given to the loop, and abandons an earlier
// wait.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass.Seen, g.pass.CaughtUpTo, g.calls, g.seen, g.through = 0, 0, Calls{}, nil, nil
	g.open.Store(true)
}

// wait returns a channel that is closed when the loop has dealt with the batch that was written at
// revisions above after and up to upTo.
func (g *gate) wait(after, upTo statedb.Revision) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	through := make(chan struct{})
	g.through = through
	g.seen = func(p *Pass) bool {
		return p.Seen >= upTo || p.CaughtUpFrom <= after && p.CaughtUpTo >= upTo
	}
	if after == upTo {
		// Nothing was marked, so there may be no next pass.
		g.pass.Seen, g.pass.Refreshing = upTo, 0
	}
	g.endWait()
	return through
}

// hand hands a batch to the loop, and returns a channel that is closed when the loop has dealt with it. The
// wait ends with a pass that is noted after the batch was taken: no pass noted earlier knows of the batch.
func (g *gate) hand(batch func() (taken <-chan struct{})) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken, through := batch(), make(chan struct{})
	g.through = through
	g.seen = func(*Pass) bool {
		select {
		case <-taken:
			return true
		default:
			return false
		}
	}
	return through
}

// sum returns the calls since the gate was opened.
func (g *gate) sum() Calls {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// notePass records a pass, if the gate is open.
func (g *gate) notePass(p Pass) {
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = p
	g.endWait()
}

// noteCalls records calls, if the gate is open.
func (g *gate) noteCalls(c Calls) {
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls.Longest = max(g.calls.Longest, c.Longest)
	g.calls.Took += c.Took
	g.calls.Succeeded = g.calls.Succeeded || c.Succeeded
}

// endWait ends the wait and closes the gate, if the loop has dealt with the batch. The caller holds
// mu.
func (g *gate) endWait() {
	if g.through != nil && g.pass.Refreshing == 0 && g.seen(&g.pass) {
		close(g.through)
		g.seen, g.through = nil, nil
		g.open.Store(false)
	}
}
