// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"
)

// model is what a Core is meant to be, written to be believed rather than to be fast: a
// map, and a walk over all of it for every question. It knows no queue and no heap, and
// follows the words of docs/DESIGN.md, sections 4 and 5. Where the design leaves a
// choice (which of two keys that are due at the same time goes first) it checks that
// the core's choice is an allowed one, and takes it over. Only without jitter.
//
// This file has what a key is and what is observed of it, model_settle_test.go what an
// outcome means, model_plan_test.go what goes into a round, model_takeover_test.go which
// choices are taken over, model_breaker_test.go when the target counts as down, and
// model_compare_test.go what a core has to say between two rounds.
type model struct {
	limits   Limits
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
	// owes is the revision of the change that is not reconciled, 0 if all are.
	version, owes uint64
	deleted       bool
	lane          Lane
	// seen is the round in which the change was observed, and seenAt when that was.
	seen   int
	seenAt time.Duration
	// tried: the change has been attempted; unseen: nobody may be told so yet.
	tried, unseen bool
	// crowd: it is ready, and was not observed for that.
	crowd bool

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
	// place says where it is in the line in which it waits: the lowest is first.
	place int
	// group is the one that it has or waits for.
	group string
	// class is that of the breaker that it is behind; behind says whether there is one.
	class  string
	behind bool
	// probe: it is a probe of that breaker, of the opening that is open.
	probe bool
	// note is the last change that was observed while an operation ran.
	note *modelNote
}

type modelNote struct {
	obj      row
	revision uint64
	deleted  bool
	lane     Lane
	settled  bool
	seen     int
}

func newModel(cfg Config[row]) *model {
	return &model{
		limits: cfg.Limits, breaking: cfg.Breaker, keys: map[string]*modelKey{},
		holders: map[string]string{}, breakers: map[string]*modelBreaker{},
	}
}

// backoff is the wait after the nth failure in a row.
func (m *model) backoff(failures int) time.Duration {
	wait := m.limits.MinBackoff
	for range failures - 1 {
		wait = min(wait*2, m.limits.MaxBackoff)
	}
	return min(wait, m.limits.MaxBackoff)
}

// wake puts a key where it waits for a time; retries are also in a line.
func (m *model) wake(k *modelKey, s State, at time.Duration) {
	k.state, k.at, k.clock = s, at, true
	if s == Retry {
		m.lineUp(k)
	}
}

// rest puts a key where it waits for no time.
func (k *modelKey) rest(s State) { k.state, k.clock = s, false }

// ready makes a key ready: it counts as attempted only when it is.
func (k *modelKey) ready() {
	k.rest(Ready)
	k.unseen, k.crowd = !k.tried, false
}

// park makes a key paused: nobody is to wait for it.
func (k *modelKey) park() {
	k.rest(Paused)
	k.unseen = false
}

// readyInCrowd makes a key ready that was not observed for that.
func (m *model) readyInCrowd(k *modelKey) {
	k.lane = Backlog
	k.ready()
	k.crowd = true
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

// lay makes a key be of a change.
func (m *model) lay(k *modelKey, obj row, revision uint64, deleted bool, lane Lane) {
	k.obj, k.version, k.owes, k.deleted, k.lane = obj, revision, revision, deleted, lane
	k.seen, k.seenAt, k.tried, k.unseen, k.tries = m.round.number, m.round.now, false, false, 0
	if deleted {
		k.failures, k.requeues = 0, 0
	}
}

// room returns how many more changes the round may observe.
func (m *model) room() int {
	ahead := len(m.round.changes)
	for _, k := range m.keys {
		if k.state == Ready && !k.crowd {
			ahead++
		}
	}
	return max(0, m.limits.RoundSize-m.round.reserved-ahead)
}

// roomFor returns how many more changes of the backlog, or of anything else, the round may
// observe when there are both.
func (m *model) roomFor(backlog bool) int {
	taken := map[bool]int{}
	for _, k := range m.keys {
		if k.state == Ready {
			taken[k.lane == Backlog]++
		}
	}
	for _, k := range m.round.changes {
		taken[k.lane == Backlog]++
	}
	share := (m.limits.RoundSize + 1) / 2
	if !backlog {
		return max(0, share-taken[false])
	}
	// The backlog may have what is not needed of this round.
	share = max(share, m.round.size-taken[false])
	return min(max(0, share-taken[true]), m.room())
}

// observe takes in a change.
func (m *model) observe(obj row, revision uint64, deleted bool, lane Lane) {
	m.observed = max(m.observed, revision)
	k := m.keys[obj.key]
	switch {
	case k == nil:
		k = &modelKey{key: obj.key}
		m.keys[obj.key] = k
		m.lay(k, obj, revision, deleted, lane)
	case k.state == InFlight:
		k.note = &modelNote{obj: obj, revision: revision, deleted: deleted, lane: lane, seen: m.round.number}
		return
	default:
		m.unprobe(k, m.round.now, void)
		m.leaveGroup(k)
		m.lay(k, obj, revision, deleted, lane)
		if k.failures > 0 && m.round.now < k.attempted+m.limits.MinBackoff {
			m.wake(k, Held, k.attempted+m.limits.MinBackoff)
			return
		}
	}
	k.rest(Planned)
	m.round.changes = append(m.round.changes, k)
}

// observeSettled takes in a change that asks for nothing.
func (m *model) observeSettled(obj row, revision uint64) {
	m.observed = max(m.observed, revision)
	k := m.keys[obj.key]
	switch {
	case k == nil:
	case k.state == InFlight:
		k.note = &modelNote{obj: obj, revision: revision, settled: true}
	case k.state == Awaited:
		m.calm(k, obj, revision)
	}
}

// calm makes a key go on whose change turned out to ask for nothing.
func (m *model) calm(k *modelKey, obj row, revision uint64) {
	if k.deleted {
		m.forget(k)
		return
	}
	k.obj, k.version, k.fixed = obj, revision, false
	m.wake(k, Retry, k.attempted+m.backoff(k.failures))
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

// adopt takes in that the target has an object that nobody wants.
func (m *model) adopt(obj row, revision uint64) bool {
	if m.keys[obj.key] != nil {
		return false
	}
	k := &modelKey{key: obj.key}
	m.keys[obj.key] = k
	m.lay(k, obj, revision, true, Backlog)
	k.seen, k.owes, k.tried = -1, m.observed+1, true
	m.readyInCrowd(k)
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
			m.readyInCrowd(k)
		} else {
			m.wake(k, k.from, now)
		}
	}
}

func (m *model) isPaused(k *modelKey) bool { return m.paused != nil && m.paused(k.obj) }
