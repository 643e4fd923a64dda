// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/journal"
)

// refreshGate is what the refresher and the loop know of each other. The refresher marks a
// batch and waits; the loop says when that has been seen, and no refresh is on its way any
// more but such as are stuck.
type refreshGate struct {
	// open: the refresher wants to know. While it does not, the loop pays nothing.
	open atomic.Bool

	mu sync.Mutex
	// The loop has seen all up to seen, and with its second cursor what is after tipFrom and
	// up to tipUpTo. flying are the refreshes on their way. All as of the last pass.
	seen, tipFrom, tipUpTo statedb.Revision
	flying                 int
	// The batch was written at the revisions after one and up to another; through is closed
	// when it is through, nil if nobody waits.
	after, upTo statedb.Revision
	through     chan struct{}
	// longest is the longest call with refreshes since the gate was opened, spent is how long
	// all of them took, and done that some of what they were for succeeded.
	longest, spent time.Duration
	done           bool
}

// begin opens the gate: it is called before a batch is marked. A wait before that was given up.
func (g *refreshGate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.tipUpTo, g.longest, g.spent, g.done, g.through = 0, 0, 0, 0, false, nil
	g.open.Store(true)
}

// wait returns a channel that is closed when the batch is through that was written at the
// revisions after one and up to another.
func (g *refreshGate) wait(after, upTo statedb.Revision) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	through := make(chan struct{})
	g.after, g.upTo, g.through = after, upTo, through
	if after == upTo {
		// Nothing was marked, so that no pass need follow.
		g.seen, g.flying = upTo, 0
	}
	g.check()
	return through
}

// calls returns the longest call for what the gate was opened for, zero if there was none, how
// long all of these took, and whether some of it succeeded.
func (g *refreshGate) calls() (longest, spent time.Duration, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longest, g.spent, g.done
}

// check lets the refresher through if the time has come. It is called with the lock.
func (g *refreshGate) check() {
	seen := g.seen >= g.upTo || g.tipFrom <= g.after && g.tipUpTo >= g.upTo
	if g.through != nil && g.flying == 0 && seen {
		close(g.through)
		g.through = nil
		g.open.Store(false)
	}
}

// tellRefresher tells the refresher how far the loop is at the end of a pass.
func (l *Loop[Obj]) tellRefresher() {
	g := &l.refreshGate
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.tipFrom, g.tipUpTo = l.observer.revision, 0, 0
	if t := l.observer.tip; t != nil {
		g.tipFrom, g.tipUpTo = t.from, t.upTo
	}
	g.flying = l.core.Refreshing()
	g.check()
}

// tellRefresherOf tells the refresher of the calls for a batch.
func (l *Loop[Obj]) tellRefresherOf(b *batch[Obj]) {
	g := &l.refreshGate
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var longest, all time.Duration
	for i := range b.tasks {
		if b.attempts[i].cause == journal.Refresh {
			longest = max(longest, b.tasks[i].took, 1)
			all += b.tasks[i].took
			g.done = g.done || b.tasks[i].err == nil
		}
	}
	if l.batches() {
		// Each object took what its call did.
		all = longest
	}
	g.longest, g.spent = max(g.longest, longest), g.spent+all
}
