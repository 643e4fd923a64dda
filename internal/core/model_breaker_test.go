// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"slices"
	"time"
)

// modelBreaker holds work back while the target is down.
type modelBreaker struct {
	open            bool
	opened, probeAt time.Duration
	// opening counts how often it opened.
	opening int
	// failed are those that failed one after another.
	failed  map[string]bool
	failure string
	// probing is how many probes are under way, fruitless how many rounds of them failed.
	probing, fruitless int
	// came is the worst that came of those that are under way together.
	came probeResult
}

// everything is the class of the breaker for everything.
const everything = ""

// global returns the breaker for everything if it is open.
func (m *model) global() *modelBreaker {
	if b := m.breakers[everything]; b != nil && b.open {
		return b
	}
	return nil
}

// allowance returns how many items may be planned at a time, and when.
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

// never is the end of time, and more than any number of items.
const never = 1<<63 - 1

// barred reports whether a key may not be retried.
func (m *model) barred(k *modelKey) bool {
	return k.behind && k.class != everything && m.breakers[k.class].open && !k.probe
}

// held returns the keys that wait behind the breaker of a class, the first first.
func (m *model) held(class string) []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.state == Tripped && k.class == class })
}

// backingOff returns the keys that wait for their backoff behind the breaker for everything,
// the first first.
func (m *model) backingOff() []*modelKey {
	return m.inLine(func(k *modelKey) bool {
		return k.state == Retry && k.behind && k.class == everything && !k.fixed
	})
}

// probeBackingOff makes some of the keys due that wait for their backoff.
func (m *model) probeBackingOff(now time.Duration) {
	b := m.global()
	if b == nil || b.probing > 0 || now < b.probeAt || m.round.size == 0 {
		return
	}
	ready := m.inLine(func(k *modelKey) bool { return k.state == Ready })
	missing := m.breaking.Probes - len(ready) - len(m.due())
	for _, k := range m.backingOff() {
		switch {
		case missing <= 0 || k.at <= now:
		case m.isPaused(k):
			k.from = Retry
			k.park()
		default:
			m.wake(k, Retry, now)
			missing--
		}
	}
}

// beginProbes lets some of the keys through that are held.
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
				k.park()
				continue
			}
			k.probe = true
			b.probing++
			m.wake(k, Retry, now)
		}
	}
}

// probeEnds takes in that an item is not under way any more.
func (m *model) probeEnds(k *modelKey, it *Item[row], now time.Duration, came probeResult) {
	if b := m.global(); b != nil && int(it.probe) == b.opening {
		m.probesEnd(b, now, came)
	}
	m.unprobe(k, now, came)
}

func (m *model) probePutBack(it *Item[row]) {
	if b := m.global(); b != nil && int(it.probe) == b.opening {
		m.probesEnd(b, m.round.now, probeNotRun)
	}
}

// unprobe takes in that a key is no probe any more, if it is one.
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

// answered takes in what the target has answered.
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

// succeeds closes the breaker of a class, and makes everything due that waits behind it.
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

// close makes a breaker let everything through. No key is a probe any more.
func (m *model) close(class string) {
	m.breakers[class].open = false
	m.breakers[class].probing = 0
	for _, k := range m.keys {
		if k.behind && k.class == class {
			k.probe = false
		}
	}
}

// forgetClasses drops the breakers of classes with which no key failed last.
func (m *model) forgetClasses() {
	for _, class := range slices.Collect(maps.Keys(m.breakers)) {
		behind := m.inLine(func(k *modelKey) bool { return k.behind && k.class == class })
		if class != everything && len(behind) == 0 {
			delete(m.breakers, class)
		}
	}
}
