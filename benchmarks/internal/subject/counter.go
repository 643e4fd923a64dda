// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"sync"
	"sync/atomic"
)

// Counter counts events, and signals when it has reached a goal. The zero value is ready. All methods may be
// called from any goroutine.
type Counter struct {
	n    atomic.Uint64
	goal atomic.Uint64 // 0: no waiter

	mu      sync.Mutex
	reached chan struct{} // non-nil exactly while goal is not 0
}

// Add counts one event.
func (c *Counter) Add() {
	n := c.n.Add(1)
	if goal := c.goal.Load(); goal != 0 && n >= goal {
		c.announce()
	}
}

// Load returns the number of events so far.
func (c *Counter) Load() uint64 { return c.n.Load() }

// Reached returns a channel that closes as soon as n events were counted; for n = 0 it is closed already. A
// counter has one waiter: a second call before the first channel is closed leaves the first one open for
// ever.
func (c *Counter) Reached(n uint64) <-chan struct{} {
	c.mu.Lock()
	c.reached = make(chan struct{})
	reached := c.reached
	c.goal.Store(n)
	c.mu.Unlock()
	// Events may have passed the goal before Add could see it.
	if c.n.Load() >= n {
		c.announce()
	}
	return reached
}

func (c *Counter) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached != nil && c.n.Load() >= c.goal.Load() {
		close(c.reached)
		c.reached = nil
		c.goal.Store(0)
	}
}
