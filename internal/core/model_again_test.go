// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// again records that an object is run again whose row has not changed, and reports whether an operation
// on it is running.
func (m *model) again(now time.Duration, obj row, revision uint64, forced bool) (running bool) {
	k := m.keys[obj.key]
	switch {
	case k == nil:
		k = &modelKey{key: obj.key, obj: obj, version: revision, lane: Refresh, seen: -1, tried: true, repeat: true}
		m.keys[obj.key] = k
		m.readyOrPaused(k)
		m.lineUp(k)
	case k.state == InFlight:
		if forced && k.note == nil {
			k.note = &modelNote{again: true}
		}
		return true
	case forced || k.state == Requeue:
		m.runSoon(k, now)
	}
	return false
}

// runSoon makes a key due, but not before its minimum backoff has passed if it fails.
func (m *model) runSoon(k *modelKey, now time.Duration) {
	if k.failures > 0 {
		now = max(now, k.attempted+m.limits.MinBackoff)
	}
	m.hurry(k, now)
}

// hurry makes a key due that waits for a time or for a channel, or was given up, and reports whether it did.
func (m *model) hurry(k *modelKey, at time.Duration) bool {
	switch k.state {
	case Held, Retry, Requeue, Blocked:
		earliest := at
		if k.clock {
			// The core may have drawn jitter for the wait that ends here.
			at, earliest = min(at, k.at), min(at, k.at-k.drawn)
		}
		m.wake(k, k.state, at)
		k.drawn = at - earliest
	case Terminal:
		k.tries = 0
		m.wake(k, Retry, at)
	default:
		return false
	}
	return true
}

// runAgain makes a key go on whose operation has ended, and whose outcome does not count.
func (m *model) runAgain(k *modelKey, now time.Duration, out Outcome[row]) {
	if out.Kind != Done && out.Kind != DoneAgain {
		m.await(k, now, out)
		m.runSoon(k, now)
		return
	}
	k.lane, k.seen = Refresh, -1
	// If it was reconciled, it still is.
	k.repeat = k.since == 0
	m.readyOrPaused(k)
	m.lineUp(k)
}
