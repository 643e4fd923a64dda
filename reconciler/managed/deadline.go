// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of all calls of the user's code in one pass: the context of the operation,
// with a deadline and a scope. A timer costs as much as the rest of a poll, and many clients return
// without waiting. So the timer is made when the context is first asked for its Done channel, or for
// its end after the deadline.
type callContext struct {
	scope  *scope
	parent context.Context
	// deadline is zero if only the parent has one.
	deadline time.Time

	mu     sync.Mutex
	ended  bool
	timed  context.Context
	cancel context.CancelFunc
}

// begin sets the deadline, timeout from now. A timeout of zero means no deadline.
func (c *callContext) begin(parent context.Context, s *scope, timeout time.Duration) {
	c.parent, c.scope = parent, s
	if timeout > 0 {
		c.deadline = time.Now().Add(timeout)
	}
}

// end ends the context: a client may have kept it.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// real returns the context with the timer, or without one if there is no deadline. It ends with the
// pass.
func (c *callContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		if c.deadline.IsZero() {
			c.timed, c.cancel = context.WithCancel(c.parent)
		} else {
			c.timed, c.cancel = context.WithDeadline(c.parent, c.deadline)
		}
		if c.ended {
			c.cancel()
		}
	}
	return c.timed
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) {
	at, ok := c.parent.Deadline()
	if c.deadline.IsZero() || ok && at.Before(c.deadline) {
		return at, ok
	}
	return c.deadline, true
}

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} { return c.real().Done() }

// Err implements [context.Context].
func (c *callContext) Err() error {
	if c.untimed() && (c.deadline.IsZero() || time.Now().Before(c.deadline)) {
		return c.parent.Err()
	}
	return c.real().Err()
}

// untimed reports whether the context has neither ended nor a timer yet.
func (c *callContext) untimed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timed == nil && !c.ended
}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (scopeKey{}) {
		return c.scope
	}
	// A context derived from this one looks up its parent's cancellation here. It has asked for Done by
	// then, so it finds the context with the timer and needs no goroutine.
	if c.untimed() {
		return c.parent.Value(key)
	}
	return c.real().Value(key)
}
