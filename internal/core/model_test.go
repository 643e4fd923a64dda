// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// model is what a Core is meant to be, written to be believed rather than to be fast: a
// map, and a walk over all of it for every question. It knows no queue and no heap, and
// follows the words of docs/DESIGN.md, sections 4 and 5. Where the design leaves a
// choice (which of two keys that are due at the same time goes first) it checks that
// the core's choice is an allowed one, and takes it over. So it does with the jitter that
// the core draws.
//
// This file has what a key is and what is observed of it, model_settle_test.go what an
// outcome means, model_plan_test.go what goes into a round, model_takeover_test.go which
// choices are taken over, model_breaker_test.go when the target counts as down, and
// model_compare_test.go what a core has to say between two rounds.
type model struct {
	limits   Limits
	same     func(older, newer row) bool
	breaking *BreakerConfig
	grouping bool
	paused   func(row) bool

	keys map[string]*modelKey
	// holders has the key of each group that may be worked on.
	holders map[string]string
	// breakers are by class; "" is the one for everything.
	breakers map[string]*modelBreaker
	// ran counts the operations that were run: each has a place, which belongs to a lane.
	ran      int
	observed uint64
	// first and last number the places in line that were given last, at either end.
	first, last int

	round modelRound
	told  telling
}

// modelKey is a key that is not reconciled, or is to be run again.
type modelKey struct {
	key   string
	state State
	// from is the state before the round took the key.
	from State
	obj  row
	// since is the revision of the change that is not reconciled, 0 if all are.
	version, since uint64
	deleted        bool
	lane           Lane
	// seen is the round in which the change was observed, and seenAt when that was.
	seen   int
	seenAt time.Duration
	// tried: the change has been attempted; unseen: nobody may be told so yet.
	tried, unseen bool
	// swept: a sweep found it, and it has not been attempted since.
	swept bool
	// unknown: the core need not know the key yet: it has been observed in this round.
	unknown bool

	failures, tries int
	// requeues counts the outcomes in a row that were done with a backoff.
	requeues  int
	failure   string
	attempted time.Duration
	// mark is what the caller noted with the last outcome.
	mark uint8

	// at is when the key is due; clock says whether there is such a time, fixed that
	// it is no backoff.
	at           time.Duration
	clock, fixed bool
	// drawn is by how much it may be due before that, until it is known what the core drew.
	drawn time.Duration
	// place says where it is in the line in which it waits: the lowest is first.
	place int
	// group is the one that it has or waits for.
	group string
	// class is that of the breaker that it is behind; behind says whether there is one.
	class  string
	behind bool
	// probe: it is a probe of that breaker, of the opening that is open.
	probe bool
	// stuck: its operation takes too long, and may never come back.
	stuck bool
	// note is the last change that was observed while an operation ran.
	note *modelNote
}

// modelNote is a change. since may be that of an older version that asked for the
// same.
type modelNote struct {
	obj             row
	revision, since uint64
	deleted         bool
	lane            Lane
	// settled: it asks for nothing; unset: the object is left alone.
	settled, unset bool
}

func newModel(cfg Config[row]) *model {
	return &model{
		limits: cfg.Limits, same: cfg.SamePending, breaking: cfg.Breaker, keys: map[string]*modelKey{},
		holders: map[string]string{}, breakers: map[string]*modelBreaker{},
	}
}

// backoff is the wait after the nth failure in a row, without jitter.
func (m *model) backoff(failures int) time.Duration {
	wait := m.limits.MinBackoff
	for range failures - 1 {
		wait = min(wait*2, m.limits.MaxBackoff)
	}
	return min(wait, m.limits.MaxBackoff)
}

// backOff puts a key where it waits for its backoff after the nth failure in a row at a time.
// The wait is shortened by the jitter that the outcome says, or by what the core draws.
func (m *model) backOff(k *modelKey, s State, from time.Duration, n int, jitter float64) {
	wait := m.backoff(n)
	if jitter > 0 {
		wait -= time.Duration(float64(wait) * m.limits.Jitter * jitter)
	}
	m.wake(k, s, from+wait)
	if jitter == 0 {
		k.drawn = time.Duration(float64(wait) * m.limits.Jitter)
	}
}

// takeOverJitter makes the keys of which the core has drawn when they are due be due then, if
// they may be.
func (m *model) takeOverJitter(t testingT, c *Core[row]) {
	for key, k := range m.keys {
		if k.clock && k.drawn > 0 {
			at := c.entries[key].dueAt
			require.LessOrEqual(t, at, k.at, "%q is due", key)
			require.GreaterOrEqual(t, at, k.at-k.drawn, "%q is due", key)
			k.at, k.drawn = at, 0
		}
	}
}

// wake puts a key where it waits for a time; retries are also in a line.
func (m *model) wake(k *modelKey, s State, at time.Duration) {
	k.state, k.at, k.clock, k.drawn = s, at, true, 0
	if s == Retry {
		m.lineUp(k)
	}
}

// rest puts a key where it waits for no time.
func (k *modelKey) rest(s State) { k.state, k.clock = s, false }

// ready makes a key ready: it counts as attempted only when it is.
func (k *modelKey) ready() {
	k.rest(Ready)
	k.unseen, k.unknown = !k.tried, false
}

// park makes a key paused: nobody is to wait for it.
func (k *modelKey) park() {
	k.rest(Paused)
	k.unseen = false
}

// resume makes a key ready that somebody else than a cursor has brought.
func (m *model) resume(k *modelKey) {
	k.lane = Resumption
	k.ready()
	m.lineUp(k)
}

// lineUp puts a key at the end of a line, jumpIn at its front.
func (m *model) lineUp(k *modelKey) { m.last++; k.place = m.last }
func (m *model) jumpIn(k *modelKey) { m.first--; k.place = m.first }

// inLine returns the keys of which a condition holds, in the order of their line.
func (m *model) inLine(condition func(k *modelKey) bool) []*modelKey {
	var keys []*modelKey
	for _, k := range m.keys {
		if condition(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *modelKey) int { return cmp.Compare(a.place, b.place) })
	return keys
}

// ready returns the keys of a lane that are ready.
func (m *model) ready(lane Lane) []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.state == Ready && k.lane == lane })
}

// replaceChange gives a key a change, since which it is unreconciled.
func (m *model) replaceChange(k *modelKey, n *modelNote) {
	k.obj, k.version, k.since, k.deleted, k.lane = n.obj, n.revision, n.since, n.deleted, n.lane
	k.seen, k.seenAt, k.tried, k.unseen, k.tries = m.round.number, m.round.now, false, false, 0
	k.swept = false
	if n.deleted {
		k.failures, k.requeues = 0, 0
	}
}

// renew makes a key be of another version that asks for what it waits for anyway.
func (m *model) renew(k *modelKey, n *modelNote) {
	k.obj, k.version, k.seen = n.obj, n.revision, m.round.number
	k.since = min(k.since, n.since)
	if k.group != n.obj.group {
		m.leaveGroup(k)
	}
}

// asksTheSame reports whether a change asks for what a key waits for anyway: for what has
// been asked and not been attempted.
func (m *model) asksTheSame(k *modelKey, n *modelNote) bool {
	return !k.tried && k.since > 0 && !k.deleted && !n.deleted && m.same(k.obj, n.obj)
}

// count returns how many changes of a lane there are ahead of their turn.
func (m *model) count(lane Lane) int {
	n := len(m.ready(lane))
	for _, k := range m.round.changes {
		if k.lane == lane {
			n++
		}
	}
	return n
}

// full reports whether the round has no room for another change of a lane.
func (m *model) full(lane Lane) bool {
	half := (m.limits.RoundSize + 1) / 2
	nothingReady := len(m.inLine(func(k *modelKey) bool { return k.state == Ready })) == 0
	switch {
	case m.round.maxFresh == 0 && nothingReady:
		// All that is observed is run in this round.
		return len(m.round.changes)+m.round.reserved >= m.round.size
	case m.round.maxFresh == 0:
		return m.count(lane) >= m.round.size
	case lane == Fresh:
		return m.count(lane) >= half || m.count(lane) >= m.round.maxFresh
	case lane == Backlog:
		// It has what what is fresh leaves of the round.
		return m.count(lane) >= half && m.count(lane)+m.count(Fresh) >= m.round.size
	}
	return m.count(lane) >= half
}

// observe takes in a change.
func (m *model) observe(obj row, revision, since uint64, deleted bool, lane Lane) {
	m.observed = max(m.observed, revision)
	n := &modelNote{obj: obj, revision: revision, since: since, deleted: deleted, lane: lane}
	k := m.keys[obj.key]
	if k == nil {
		k = &modelKey{key: obj.key, unknown: true}
		m.keys[obj.key] = k
		m.replaceChange(k, n)
		m.take(k)
		return
	}
	switch same := m.asksTheSame(k, n); {
	case revision <= k.version:
		// It is old, but it was there: the key is unreconciled since then.
		if k.since > 0 {
			k.since = min(k.since, since)
		}
		if deleted && k.swept {
			// The sweep knew of the object, not of the deletion.
			k.tried, k.unseen = false, k.state != Paused
		}
	case k.state == InFlight:
		m.note(k, n)
	case same && (k.state == Ready || k.state == Held || k.state == Queued && k.group == obj.group):
		m.renew(k, n)
	case same && k.state == Paused && m.paused != nil && m.paused(obj):
		m.renew(k, n)
	case same:
		m.unprobe(k, m.round.now, probeNotRun)
		m.leaveGroup(k)
		m.renew(k, n)
		m.take(k)
	case k.state == Queued && k.group == obj.group:
		m.unprobe(k, m.round.now, probeNotRun)
		m.replaceChange(k, n)
		k.from, k.unseen = Ready, true
	case k.state == Ready && k.lane == lane && k.deleted == deleted:
		m.unprobe(k, m.round.now, probeNotRun)
		if k.group != obj.group {
			m.leaveGroup(k)
		}
		m.replaceChange(k, n)
		k.unseen = true
	default:
		m.unprobe(k, m.round.now, probeNotRun)
		m.leaveGroup(k)
		m.replaceChange(k, n)
		if k.failures > 0 && m.round.now < k.attempted+m.limits.MinBackoff {
			m.wake(k, Held, k.attempted+m.limits.MinBackoff)
			return
		}
		m.take(k)
	}
}

// take makes a key that was observed part of the round, or ready if there are two cursors.
func (m *model) take(k *modelKey) {
	if m.round.maxFresh > 0 {
		k.ready()
		m.lineUp(k)
		return
	}
	k.rest(Planned)
	m.round.changes = append(m.round.changes, k)
}

// note takes in a change of a key on which an operation runs. The latest counts, but it is
// unreconciled since the first that asked for the same, or that was there before it.
func (m *model) note(k *modelKey, n *modelNote) {
	old := k.note
	if !n.settled && (old == nil || !old.settled || n.revision > old.revision) {
		// It is not reconciled before that is.
		k.since = min(k.since, n.since)
	}
	switch {
	case old != nil && n.revision <= old.revision:
		if !n.settled && !old.settled {
			old.since = min(old.since, n.since)
		}
		return
	case old != nil && !old.settled && !n.settled && !old.deleted && !n.deleted && m.same(old.obj, n.obj):
		n.since = min(n.since, old.since)
	}
	k.note = n
}

// observeSettled takes in a change that asks for nothing, and reports whether its key is
// forgotten for it.
func (m *model) observeSettled(obj row, revision uint64, says RowStatus) bool {
	m.observed = max(m.observed, revision)
	k := m.keys[obj.key]
	switch {
	case k == nil || revision <= k.version:
	case k.state == InFlight:
		m.note(k, &modelNote{obj: obj, revision: revision, settled: true, unset: says == RowUnset})
	case says == RowUnset, k.deleted, says == RowDone && k.state == Terminal:
		m.unprobe(k, m.round.now, probeNotRun)
		m.forget(k)
		return true
	case k.state == Unseen:
		m.calm(k, obj, revision, 0)
	}
	return false
}

// calm makes a key go on whose change turned out to ask for nothing.
func (m *model) calm(k *modelKey, obj row, revision uint64, jitter float64) {
	k.obj, k.version, k.fixed = obj, revision, false
	m.backOff(k, Retry, k.attempted, k.failures, jitter)
}

func (m *model) forget(k *modelKey) {
	m.leaveGroup(k)
	delete(m.keys, k.key)
	m.forgetClasses()
}

// leaveGroup takes in that a key does not need its group any more: if it has it, the one
// that waits for it the longest has it now, and is on its way again.
func (m *model) leaveGroup(k *modelKey) {
	group := k.group
	k.group = ""
	if group == "" || m.holders[group] != k.key {
		return
	}
	delete(m.holders, group)
	waiting := m.inLine(func(k *modelKey) bool { return k.state == Queued && k.group == group })
	if len(waiting) == 0 {
		return
	}
	next := waiting[0]
	m.holders[group] = next.key
	if next.from == Ready {
		next.ready()
		m.jumpIn(next)
	} else {
		m.wake(next, next.from, next.at)
	}
}

// release takes in that a key has what it was blocked on.
func (m *model) release(key string, now time.Duration) bool {
	k := m.keys[key]
	if k == nil || k.state != Blocked {
		return false
	}
	if k.clock {
		now = min(now, k.at)
	}
	m.wake(k, Blocked, now)
	return true
}

// addOrphan records an object that the target has and no row wants.
func (m *model) addOrphan(obj row, revision uint64) bool {
	if m.keys[obj.key] != nil {
		return false
	}
	k := &modelKey{key: obj.key}
	m.keys[obj.key] = k
	m.replaceChange(k, &modelNote{obj: obj, revision: revision, deleted: true})
	k.seen, k.since, k.tried, k.swept = -1, m.observed+1, true, true
	m.resume(k)
	return true
}

// setPaused takes in which objects are not to be worked on.
func (m *model) setPaused(now time.Duration, paused func(row) bool) {
	m.paused = paused
	resumed := m.inLine(func(k *modelKey) bool { return k.state == Paused && !m.isPaused(k) })
	slices.SortFunc(resumed, func(a, b *modelKey) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.key, b.key))
	})
	for _, k := range resumed {
		if k.from == Ready {
			m.resume(k)
		} else {
			m.wake(k, k.from, now)
		}
	}
}

func (m *model) isPaused(k *modelKey) bool { return m.paused != nil && m.paused(k.obj) }
