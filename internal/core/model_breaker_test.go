// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"slices"
	"time"
)

// modelBreaker is a breaker of a model.
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

// everything is the class of the breaker for all errors.
const everything = ""

// global returns the breaker for all errors if it is open.
func (m *model) global() *modelBreaker {
	if b := m.breakers[everything]; b != nil && b.open {
		return b
	}
	return nil
}

// allowance returns how many items may be planned at a time; if none, when that changes.
func (m *model) allowance(now time.Duration) (n int, at time.Duration) {
	b := m.global()
	switch {
	case b == nil:
		return never, 0
	case b.probing > 0:
		return 0, never
	case now < b.probeAt:
		return 0, b.probeAt
	}
	return m.breaking.Probes, 0
}

// never is the largest time, and the largest number of items.
const never = 1<<63 - 1

// barred reports whether a key must wait for its breaker instead of being retried.
func (m *model) barred(k *modelKey) bool {
	return k.behind && k.class != everything && m.breakers[k.class].open && !k.probe
}

// held returns the keys that the breaker of a class holds, in order.
func (m *model) held(class string) []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.state == Tripped && k.class == class })
}

// backingOff returns the keys that wait for their backoff after a failure that counted for the
// breaker for all errors, in order.
func (m *model) backingOff() []*modelKey {
	return m.inLine(func(k *modelKey) bool {
		return k.state == Retry && k.behind && k.class == everything && !k.fixed
	})
}

// probeBackingOff makes some keys due that wait for their backoff, if too few others can probe.
func (m *model) probeBackingOff(now time.Duration) {
	b := m.global()
	if b == nil || b.probing > 0 || now < b.probeAt || m.round.left == 0 {
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

// beginProbes makes some of the held keys due as probes.
func (m *model) beginProbes(now time.Duration) {
	m.probeBackingOff(now)
	for class, b := range m.breakers {
		if class == everything || !b.open || b.probing > 0 || now < b.probeAt {
			continue
		}
		b.came = probeNotRun
		for _, k := range m.held(class) {
			if b.probing == m.breaking.Probes {
				break
			}
			k.from = Retry
			if m.isPaused(k) {
				m.park(k)
				continue
			}
			k.probe = true
			b.probing++
			m.wake(k, Retry, now)
		}
	}
}

// probeEnds records the result of an item for the breakers that it probed for.
func (m *model) probeEnds(k *modelKey, it *Operation[row], now time.Duration, came probeResult) {
	if b := m.global(); b != nil && int(it.probe) == b.opening {
		m.probesEnd(b, now, came)
	}
	m.unprobe(k, now, came)
}

// unprobe records the result of a key, if it is a probe for its breaker.
func (m *model) unprobe(k *modelKey, now time.Duration, came probeResult) {
	if k.probe {
		m.probesEnd(m.breakers[k.class], now, came)
	}
	k.probe = false
}

func (m *model) probesEnd(b *modelBreaker, now time.Duration, came probeResult) {
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
	b.probeAt = now + m.interval(b)
}

func (m *model) interval(b *modelBreaker) time.Duration {
	every := m.breaking.MinInterval
	for range b.fruitless {
		every = min(2*every, m.breaking.MaxInterval)
	}
	return every
}

// answered counts an outcome for the breakers.
func (m *model) answered(k *modelKey, now time.Duration, out Outcome[row]) {
	if m.breaking == nil {
		return
	}
	was, wasBehind := "", false
	if k != nil {
		was, wasBehind = k.class, k.behind
		k.class, k.behind = "", false
	}
	switch {
	case out.Kind == Failed && (!m.breaking.ByClass || out.Class != ""):
		k.behind = true
		if m.breaking.ByClass {
			k.class = out.Class
		}
		m.fails(k.class, k, now)
	case out.GivenUp && !m.breaking.ByClass:
		m.fails(everything, k, now)
	case out.GivenUp:
		if m.breakers[out.Class] != nil {
			m.fails(out.Class, k, now)
		}
	case out.Kind != Done && out.Kind != DoneAgain:
	case !m.breaking.ByClass:
		m.succeeds(everything, now)
	case wasBehind:
		m.succeeds(was, now)
	}
	m.forgetClasses()
}

func (m *model) fails(class string, k *modelKey, now time.Duration) {
	b := m.breakers[class]
	if b == nil {
		b = &modelBreaker{failed: map[string]bool{}}
		m.breakers[class] = b
	}
	b.failure = k.failure
	if b.open {
		return
	}
	b.failed[k.key] = true
	if len(b.failed) < m.breaking.Failures {
		return
	}
	clear(b.failed)
	b.open, b.opened, b.probing, b.fruitless = true, now, 0, 0
	b.opening++
	b.probeAt = now + m.interval(b)
}

// succeeds closes the breaker of a class, and makes the keys due that wait for it.
func (m *model) succeeds(class string, now time.Duration) {
	b := m.breakers[class]
	if b == nil {
		return
	}
	clear(b.failed)
	if !b.open {
		return
	}
	m.close(class)
	for _, k := range m.keys {
		switch {
		case !k.behind || k.class != class:
		case k.state == Tripped:
			m.wake(k, Retry, now)
			k.fixed = true
		case k.state == Retry && !k.fixed:
			k.at, k.fixed, k.drawn = min(k.at, now), true, 0
		}
	}
}

// close closes a breaker. No key is a probe for it any more.
func (m *model) close(class string) {
	m.breakers[class].open = false
	m.breakers[class].probing = 0
	for _, k := range m.keys {
		if k.behind && k.class == class {
			k.probe = false
		}
	}
}

// forgetClasses removes the class breakers that no key's last error counted for.
func (m *model) forgetClasses() {
	for _, class := range slices.Collect(maps.Keys(m.breakers)) {
		behind := m.inLine(func(k *modelKey) bool { return k.behind && k.class == class })
		if class != everything && len(behind) == 0 {
			delete(m.breakers, class)
		}
	}
}
