// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package breaker has the gate that holds operations back while a target is down.
//
// A [Breaker] counts failures. While it is open, its caller lets one operation through after each pause, and tells it
// the outcome. It knows neither keys nor operations, and has no clock: time is an argument.
package breaker

import (
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
)

// The pause after the breaker opened is MinPause. It doubles with each operation that fails after a pause, up to
// MaxPause.
const (
	MinPause = 100 * time.Millisecond
	MaxPause = time.Second
)

// Breaker decides whether the target counts as down. The zero value is closed. It belongs to one goroutine.
type Breaker struct {
	State
	// failed has the keys that failed since the last success; it is empty while the breaker is open.
	failed map[string]struct{}
	// failedProbes counts the operations that failed after a pause, since the breaker opened.
	failedProbes int
}

// State describes a breaker.
type State struct {
	// Openings counts how often it opened.
	Openings uint64
	// Open reports whether the breaker is open. The fields below are zero while it is closed.
	Open bool
	// Since is when the breaker opened, ProbeAt when the pause ends: then the next operation may begin.
	Since, ProbeAt time.Duration
	// Failure is the text of the last error.
	Failure string
}

// Succeed counts a success, and reports whether it closed the breaker.
func (b *Breaker) Succeed() (closed bool) {
	clear(b.failed)
	closed = b.Open
	b.State = State{Openings: b.Openings}
	return closed
}

// Fail counts the failure of a key. The breaker opens if limit keys have failed with no success in between.
func (b *Breaker) Fail(now time.Duration, key, failure string, limit int) {
	if b.Open {
		b.Failure = failure
		if now >= b.ProbeAt {
			b.failedProbes++
			b.pause(now)
		}
		return
	}
	if b.failed == nil {
		b.failed = map[string]struct{}{}
	}
	b.failed[key] = struct{}{}
	if len(b.failed) < limit {
		return
	}
	clear(b.failed)
	b.failedProbes = 0
	b.State = State{Openings: b.Openings + 1, Open: true, Since: now, Failure: failure}
	b.pause(now)
}

// Ignore counts an outcome that does not show whether the target works: another operation finds out after a pause.
func (b *Breaker) Ignore(now time.Duration) {
	if b.Open && now >= b.ProbeAt {
		b.pause(now)
	}
}

// pause begins a pause.
func (b *Breaker) pause(now time.Duration) {
	b.ProbeAt = now + backoff.Exponential{Min: MinPause, Max: MaxPause}.Delay(b.failedProbes+1)
}
