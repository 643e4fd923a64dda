// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package harness

import "sync"

// Exclusive detects operations on the same key that overlap. The zero value is ready for use. Safe from any
// goroutine.
type Exclusive[Key comparable] struct {
	mu       sync.Mutex
	running  map[Key]bool
	violated bool
}

// Enter begins an operation on a key; leave ends it.
func (x *Exclusive[Key]) Enter(key Key) (leave func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil {
		x.running = map[Key]bool{}
	}
	x.violated = x.violated || x.running[key]
	x.running[key] = true
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.running, key)
	}
}

// Violated reports whether two operations on one key have overlapped.
func (x *Exclusive[Key]) Violated() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.violated
}
