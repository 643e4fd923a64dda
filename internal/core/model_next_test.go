// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"time"

	"github.com/stretchr/testify/require"
)

// modelRound is the current round of a model: see round. number counts the rounds.
type modelRound struct {
	number           int
	now              time.Duration
	left, passedOver int
	entries          bool
}

// asked is a call of the source of a core, and what the core was told in it.
type asked struct {
	lane   Lane
	told   []func()
	change Change[row]
	ok     bool
}

// begin begins a round.
func (m *model) begin(now time.Duration, size int, entries bool) {
	m.round = modelRound{number: m.round.number + 1, now: now, left: min(size, m.limits.RoundSize), entries: entries}
	m.beginProbes(now)
}

// due returns the due keys.
func (m *model) due() []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.clock && k.at <= m.round.now })
}

// step does for one key what [Core.Next] does, and checks that the core c has done the same: it has made op if
// runs, found says whether it found a key, and calls are the calls of its source.
func (m *model) step(t testingT, c *Core[row], op *Operation[row], runs, found bool, calls []asked) {
	for _, lane := range places[m.ran%len(places)] {
		if lane == dueLane {
			if k := m.taken(t, c, op, runs); k != nil {
				k.from = k.state
				m.requireTurn(t, c, k, op, runs)
				require.Empty(t, calls, "calls of the source")
				return
			}
			continue
		}
		if len(m.ready(lane)) == 0 || m.sourcesTurn[lane] {
			require.NotEmpty(t, calls, "the source is not asked for lane %s", lane)
			call := calls[0]
			calls = calls[1:]
			same(t, lane, call.lane, "lane that the source is asked for")
			for _, tell := range call.told {
				tell()
			}
			m.takeOverJitter(t, c)
			if change := call.change; call.ok {
				m.sourcesTurn[lane] = false
				k := m.observe(change)
				if k == nil {
					require.False(t, runs, "%q is run", change.Obj.key)
					m.round.passedOver++
				} else {
					m.requireTurn(t, c, k, op, runs)
				}
				require.Empty(t, calls, "calls of the source")
				return
			}
		}
		if ready := m.ready(lane); len(ready) > 0 {
			m.sourcesTurn[lane] = true
			ready[0].from = Ready
			m.requireTurn(t, c, ready[0], op, runs)
			require.Empty(t, calls, "calls of the source")
			return
		}
	}
	require.False(t, found, "a key was found")
	require.Empty(t, calls, "calls of the source")
}

// taken returns the due key that the core has taken, which must have been due for longest; nil if none is due.
func (m *model) taken(t testingT, c *Core[row], op *Operation[row], runs bool) (taken *modelKey) {
	var first []*modelKey
	for _, k := range m.due() {
		switch {
		case len(first) == 0 || k.at < first[0].at:
			first = []*modelKey{k}
		case k.at == first[0].at:
			first = append(first, k)
		}
	}
	for _, k := range first {
		if runs && k.key == op.Obj.key || !runs && c.keys.entries[k.key].state != k.state {
			require.Nil(t, taken, "two due keys were taken")
			taken = k
		}
	}
	require.True(t, taken != nil || len(first) == 0, "no due key was taken")
	return taken
}

// requireTurn runs a key whose turn has come, or passes it over, and checks that the core has done the same.
func (m *model) requireTurn(t testingT, c *Core[row], k *modelKey, op *Operation[row], runs bool) {
	timed := k.from != Ready
	same(t, m.run(k), runs, "whether %q is run", k.key)
	if !runs {
		m.round.passedOver++
		return
	}
	m.round.left--
	m.ran++
	same(t, k.obj, op.Obj, "object of %q", k.key)
	same(t, k.version, op.Revision, "revision of %q", k.key)
	same(t, k.deleted, op.Deleted, "%q is deleted", k.key)
	same(t, k.failures, int(op.Failures), "attempts of %q", k.key)
	same(t, k.tries, int(op.Tries), "tries of %q", k.key)
	same(t, k.lane, op.Lane(), "lane of %q", k.key)
	same(t, k.mark, op.Outcome.RowKind, "mark of %q", k.key)
	same(t, k.unknown, !op.HasEntry(), "whether %q has no entry", k.key)
	same(t, timed || k.seen != m.round.number, op.Turn.Waited, "%q is run again", k.key)
	b := &m.breaker
	if !b.open {
		require.Zero(t, op.Turn.probe, "%q is no probe", k.key)
		return
	}
	same(t, b.opening, int(op.Turn.probe), "opening that %q probes for", k.key)
	if b.probing == 0 {
		b.came = probeNotRun
	}
	b.probing++
}

// run reports whether a key is run whose turn has come. If not, it waits.
func (m *model) run(k *modelKey) bool {
	if m.isPaused(k) {
		m.park(k)
		return false
	}
	if m.grouping && k.group == "" && k.obj.group != "" {
		k.group = k.obj.group
		if _, held := m.holders[k.group]; held {
			k.rest(Queued)
			m.lineUp(k)
			return false
		}
		m.holders[k.group] = k.key
	}
	k.rest(InFlight)
	k.unseen = !k.tried
	return true
}

// notRun records that an operation is not run: its place goes to the next one.
func (m *model) notRun() {
	m.ran--
	m.round.left++
	m.round.passedOver++
}

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
