// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// modelBreaker is the breaker of a model.
type modelBreaker struct {
	open            bool
	opened, probeAt time.Duration
	// opening counts how often the breaker opened.
	opening int
	// failed has the keys that failed since the last success.
	failed  map[string]bool
	failure string
	// probing is the number of running probes, fruitless the number of groups of them that failed.
	probing, fruitless int
	// came is the worst result of the probes that run together.
	came probeResult
}

// allowance returns how many operations may begin at a time; if none, when that changes.
func (m *model) allowance(now time.Duration) (n int, at time.Duration) {
	b := &m.breaker
	switch {
	case !b.open:
		return never, 0
	case b.probing > 0:
		return 0, never
	case now < b.probeAt:
		return 0, b.probeAt
	}
	return m.breaking.Probes, 0
}

// never is the largest time, and the largest number of operations.
const never = 1<<63 - 1

// backingOff returns the keys that wait for their backoff after a failure that counted, in order.
func (m *model) backingOff() []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.state == Retry && k.counted && !k.fixed })
}

// beginProbes makes some keys due that wait for their backoff, if too few others can probe.
func (m *model) beginProbes(now time.Duration) {
	b := &m.breaker
	if !b.open || b.probing > 0 || now < b.probeAt || m.round.left == 0 {
		return
	}
	ready := m.inLine(func(k *modelKey) bool { return k.state == Ready })
	missing := m.breaking.Probes - len(ready) - len(m.due())
	for _, k := range m.backingOff() {
		switch {
		case missing <= 0 || k.at <= now:
		case m.isPaused(k):
			k.from = Retry
			m.park(k)
		default:
			m.wake(k, Retry, now)
			missing--
		}
	}
}

// probeEnds records the result of an operation, if it was a probe.
func (m *model) probeEnds(it *Operation[row], now time.Duration, came probeResult) {
	b := &m.breaker
	if !b.open || int(it.Turn.probe) != b.opening {
		return
	}
	b.probing--
	b.came = max(b.came, came)
	if b.probing > 0 {
		return
	}
	if b.came == probeNotRun {
		b.probeAt = now
		return
	}
	if b.came == probeFailed {
		b.fruitless++
	}
	b.probeAt = now + m.interval()
}

func (m *model) interval() time.Duration {
	every := m.breaking.MinInterval
	for range m.breaker.fruitless {
		every = min(2*every, m.breaking.MaxInterval)
	}
	return every
}

// answered counts an outcome for the breaker. k is nil if the core has no entry for the key.
func (m *model) answered(k *modelKey, now time.Duration, out Outcome[row]) {
	if m.breaking == nil {
		return
	}
	if k != nil {
		k.counted = out.Kind == Failed && !out.Final
	}
	switch {
	case out.Kind == Failed && !out.Final, out.GivenUp:
		m.fails(k, now)
	case out.Kind == Done, out.Kind == DoneAgain:
		m.succeeds(now)
	}
}

func (m *model) fails(k *modelKey, now time.Duration) {
	b := &m.breaker
	b.failure = k.failure
	if b.open {
		return
	}
	if b.failed == nil {
		b.failed = map[string]bool{}
	}
	b.failed[k.key] = true
	if len(b.failed) < m.breaking.Failures {
		return
	}
	opening := b.opening + 1
	m.breaker = modelBreaker{open: true, opened: now, opening: opening, failure: k.failure}
	b.probeAt = now + m.interval()
}

func (m *model) succeeds(now time.Duration) {
	b := &m.breaker
	b.failed = nil
	if !b.open {
		return
	}
	b.open, b.probing = false, 0
	for _, k := range m.backingOff() {
		k.at, k.fixed, k.drawn = min(k.at, now), true, 0
	}
}
