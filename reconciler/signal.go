// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

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
