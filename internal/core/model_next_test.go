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
	same(t, k.looks, op.Turn.Cause == CauseVerify, "whether %q is looked at", k.key)
	same(t, timed || k.seen != m.round.number, op.Turn.Waited, "%q is run again", k.key)
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

// endBackoffs makes the keys due that wait for their backoff.
func (m *model) endBackoffs(now time.Duration) {
	for _, k := range m.inLine(func(k *modelKey) bool { return k.state == Retry && !k.fixed }) {
		earliest := min(k.at-k.drawn, now)
		k.at, k.fixed, k.looks, k.home = min(k.at, now), true, false, nil
		k.asked = false
		k.drawn = k.at - earliest
	}
}

// never is the largest time, and the largest number of operations.
const never = 1<<63 - 1
