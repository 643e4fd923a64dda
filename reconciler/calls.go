// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"sync/atomic"
)

// signal tells a goroutine that something has happened: once, however often that was
// before it looked. Safe from any goroutine.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// signal never blocks.
func (s signal) signal() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// calls are what other goroutines have asked the loop for since it looked last. They
// never wait for the loop, which may be stuck in an operation.
type calls[Obj any] struct {
	// made wakes the loop; some says that there is something to take.
	made signal
	some atomic.Bool

	mu    sync.Mutex
	asked asked[Obj]
}

// asked is what was asked for.
type asked[Obj any] struct {
	prune, approve bool
	// pause is set if pausing was changed; the last call wins.
	pause *pauseCall[Obj]
}

// ask adds to what was asked for.
func (c *calls[Obj]) ask(add func(*asked[Obj])) {
	c.mu.Lock()
	add(&c.asked)
	c.mu.Unlock()
	c.some.Store(true)
	c.made.signal()
}

// take returns what was asked for since the last call of it.
func (c *calls[Obj]) take() asked[Obj] {
	if !c.some.Swap(false) {
		return asked[Obj]{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.asked
	c.asked = asked[Obj]{}
	return taken
}

// Prune implements [Reconciler].
func (l *Loop[Obj]) Prune() { l.calls.ask(func(a *asked[Obj]) { a.prune = true }) }

// poll takes in what others have asked for, without waiting: a loop that is never idle
// does not come to wait. It reports whether a prune was asked for.
func (l *Loop[Obj]) poll() (prune bool) {
	if l.settings.Load() != l.setFrom {
		l.reconfigure(l.now())
	}
	a := l.calls.take()
	if a.prune || a.approve {
		l.pruner.called = true
		l.pruner.approved = l.pruner.approved || a.approve
	}
	if a.pause != nil {
		l.applyPause(a.pause)
	}
	l.pollReleased()
	return a.prune || a.approve
}
