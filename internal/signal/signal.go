// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package signal wakes one goroutine from other goroutines.
package signal

// Signal tells a goroutine that something has happened. It is received once, however often it was
// sent before. New makes a Signal; a nil Signal is never received, and drops what is sent. It is safe
// from any goroutine.
type Signal chan struct{}

// New returns a Signal with nothing to receive.
func New() Signal { return make(Signal, 1) }

// Send sends the signal. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
