// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package harness

import "sync"

// Exclusive finds out whether what must run one at a time for a key overlaps. The zero value is
// ready for use.
type Exclusive[Key comparable] struct {
	mu       sync.Mutex
	running  map[Key]bool
	violated bool
}

// Enter begins something for a key, which leave ends.
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

// Violated reports whether there have been two for one key at a time.
func (x *Exclusive[Key]) Violated() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.violated
}
