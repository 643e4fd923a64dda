// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package signal wakes one goroutine from others.
package signal

// Signal tells a goroutine that something has happened: once, however often it happened before the
// goroutine received. Use New to make one; nil blocks its receiver, and drops what is sent. Safe
// from any goroutine.
type Signal chan struct{}

// New returns a Signal with nothing to receive.
func New() Signal { return make(Signal, 1) }

// Send makes the signal have something to receive. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
