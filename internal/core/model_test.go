// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// model is a simple and slow specification of a Core: a map, and a walk over all of it for every
// question. It has no queue and no heap, and follows docs/DESIGN.md, sections 4 and 5. Where the
// design leaves a choice, for example which of two keys that are due at the same time goes first,
// the model checks that the core's choice is allowed and adopts it. It does the same with the
// jitter that the core draws.
//
// This file has the state of a key and the observations. model_settle_test.go has the outcomes, runs without a change,
// and the records, model_next_test.go what is run next, and model_compare_test.go the comparison with
// a core between two rounds.
type model struct {
	limits   Limits
	same     func(older, newer row) bool
	grouping bool
	paused   func(row) bool
	// records: rows carry no status, and a ledger takes records.
	records bool

	keys map[string]*modelKey
	// holders has the holder of each group.
	holders map[string]string
	// refreshed has the groups in which it was a refresh's turn last.
	refreshed map[string]bool
	// ran counts the operations that were run. Each has a place, which belongs to a lane.
	// sourcesTurn: the last key that was taken for a lane was ready.
	ran         int
	sourcesTurn [NumLanes]bool
	observed    uint64
	// first and last are the lowest and the highest place in line that were assigned.
	first, last int

	round modelRound
}

// modelKey is a key that has an entry in the core.
type modelKey struct {
	key   string
	state State
	// from is the state that the key had when its turn came.
	from State
	obj  row
	// version is the revision of obj. since is the revision since which the key is unreconciled; 0
	// if it is reconciled.
	version, since uint64
	deleted        bool
	lane           Lane
	// seen is the round in which the change was observed, and seenAt its time.
	seen   int
	seenAt time.Duration
	// tried: the change has been attempted. unseen: the change counts as not attempted.
	tried, unseen bool
	// orphan: a resync found the object, and it has not been attempted since.
	orphan bool
	// unknown: the core has no entry for the key yet: it was observed in this round.
	unknown bool

	// repeat: the key is reconciled, and is run again for no change.
	repeat bool

	failures, tries int
	// requeues counts the outcomes in a row that asked for a backoff without a failure.
	requeues int
	failure  string
	// reason is the text of the last attempt if that was blocked; nil if it was not.
	reason    *string
	attempted time.Duration
	// mark is the mark of the last outcome.
	mark uint8

	// at is when the key is due, if clock. fixed: that time is not a backoff.
	at           time.Duration
	clock, fixed bool
	// drawn is the largest jitter by which the core may have shortened the wait; 0 once that is
	// known.
	drawn time.Duration
	// place is the position of the key in its queue: the lowest is first.
	place int
	// group is the group that the key holds or waits for.
	group string
	// note is the last change that was observed while an operation on the key ran.
	note *modelNote
	// refresh: the success of the operation does not count. verify: the object is to be looked at after it.
	refresh, verify bool
	// looks: the next operation, or the one that runs, is a look. home is where the key waited before; nil if it is not to
	// go back there. asked: it is a refresh.
	looks, asked bool
	home         *modelHome
}

// modelHome is where a key waited before a look.
type modelHome struct {
	state State
	// drawn is as for the key.
	at, drawn           time.Duration
	fixed, clock, asked bool
}

// modelNote is a change. since may be that of an older version that asked for the same.
type modelNote struct {
	obj             row
	revision, since uint64
	deleted         bool
	lane            Lane
	// settled: the row asks for no operation. unset: the row has no status. done: it is Done.
	settled, unset, done bool
}

func newModel(cfg Config[row]) *model {
	return &model{
		limits: cfg.Limits, same: cfg.SamePending, records: cfg.Records, keys: map[string]*modelKey{},
		holders: map[string]string{}, refreshed: map[string]bool{},
	}
}

// backoff returns the wait after a number of failures in a row, without jitter.
func (m *model) backoff(failures int) time.Duration {
	wait := m.limits.MinBackoff
	for range failures - 1 {
		wait = min(wait*2, m.limits.MaxBackoff)
	}
	return min(wait, m.limits.MaxBackoff)
}

// backOff makes a key wait for its backoff after n failures in a row. The wait begins at from, and
// is shortened by the jitter of the outcome, or by the jitter that the core draws.
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

// takeOverJitter adopts the due times for which the core has drawn jitter, if they are allowed.
func (m *model) takeOverJitter(t testingT, c *Core[row]) {
	for key, k := range m.keys {
		e := c.keys.entries[key]
		if e == nil || e.state != k.state && e.from != k.state {
			// A change has ended the wait since.
			continue
		}
		if k.clock && k.drawn > 0 {
			at := e.dueAt
			require.LessOrEqual(t, at, k.at, "%q is due", key)
			require.GreaterOrEqual(t, at, k.at-k.drawn, "%q is due", key)
			k.at, k.drawn = at, 0
		}
	}
}

// wake makes a key wait for a time. Retries are also in a line.
func (m *model) wake(k *modelKey, s State, at time.Duration) {
	k.state, k.at, k.clock, k.drawn = s, at, true, 0
	if s == Retry {
		m.lineUp(k)
	}
}

// rest puts a key into a state without a time.
func (k *modelKey) rest(s State) { k.state, k.clock = s, false }

// readyOrPaused makes a key ready. Its change counts as not attempted, unless it has been. A paused key waits to
// be resumed instead.
func (m *model) readyOrPaused(k *modelKey) {
	k.unknown = false
	if m.isPaused(k) {
		k.from = Ready
		m.park(k)
		return
	}
	k.rest(Ready)
	k.unseen = !k.tried
}

// park makes a key paused. Its change counts as attempted.
func (m *model) park(k *modelKey) {
	k.rest(Paused)
	k.unseen = false
	m.leaveGroup(k)
}

// resume makes a key ready that was paused, or is an orphan.
func (m *model) resume(k *modelKey) {
	if k.since > 0 {
		k.lane = Resumption
	}
	m.readyOrPaused(k)
	m.lineUp(k)
}

// lineUp puts a key at the end of its line, jumpIn at its front.
func (m *model) lineUp(k *modelKey) { m.last++; k.place = m.last }
func (m *model) jumpIn(k *modelKey) { m.first--; k.place = m.first }

// inLine returns the keys that meet a condition, in the order of their line.
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

// ready returns the ready keys of a lane.
func (m *model) ready(lane Lane) []*modelKey {
	return m.inLine(func(k *modelKey) bool { return k.state == Ready && k.lane == lane })
}

// replaceChange stores a change in a key in place of the earlier one.
func (m *model) replaceChange(k *modelKey, n *modelNote) {
	k.obj, k.version, k.since, k.deleted, k.lane = n.obj, n.revision, n.since, n.deleted, n.lane
	k.seen, k.seenAt, k.tried, k.unseen, k.tries = m.round.number, m.round.now, false, false, 0
	k.orphan, k.repeat, k.reason = false, false, nil
	k.looks, k.asked, k.home = false, false, nil
	if n.deleted {
		k.failures, k.requeues = 0, 0
	}
}

// renew stores a version that asks for the same as the one in the key.
func (m *model) renew(k *modelKey, n *modelNote) {
	k.obj, k.version, k.seen = n.obj, n.revision, m.round.number
	k.since = min(k.since, n.since)
	if k.group != n.obj.group {
		m.leaveGroup(k)
	}
}

// asksTheSame reports whether the change of a key has not been attempted and the given change asks
// for the same.
func (m *model) asksTheSame(k *modelKey, n *modelNote) bool {
	return !k.tried && k.since > 0 && !k.deleted && !n.deleted && m.same(k.obj, n.obj)
}

// observe records a change, and returns its key if that may run now; otherwise nil.
func (m *model) observe(c Change[row]) *modelKey {
	obj, revision, since, deleted, lane := c.Obj, c.Revision, c.Since, c.Deleted, c.Lane
	m.observed = max(m.observed, revision)
	n := &modelNote{obj: obj, revision: revision, since: since, deleted: deleted, lane: lane}
	k := m.keys[obj.key]
	if k == nil {
		k = &modelKey{key: obj.key}
		m.keys[obj.key] = k
		m.replaceChange(k, n)
		k.unknown = !m.round.entries && !m.isPaused(k) && (!m.grouping || obj.group == "")
		return k.taken()
	}
	paused := m.paused != nil && m.paused(obj)
	switch same := m.asksTheSame(k, n); {
	case revision <= k.version:
		// The version is old, but the key is unreconciled since then.
		if k.since > 0 {
			k.since = min(k.since, since)
		}
		if deleted && k.orphan {
			// The resync found the object before its deletion was observed.
			k.tried, k.unseen = false, k.state != Paused
		}
	case k.state == InFlight:
		m.note(k, n)
	case same && !paused && (k.state == Ready || k.state == Queued && k.group == obj.group), same && k.state == Held:
		m.renew(k, n)
	case same && k.state == Paused && paused:
		m.renew(k, n)
	case same:
		m.leaveGroup(k)
		m.renew(k, n)
		return k.taken()
	case k.state == Queued && k.group == obj.group && !paused && (k.lane == Refresh) == (lane == Refresh):
		m.replaceChange(k, n)
		k.from, k.unseen = Ready, true
	case k.state == Ready && k.lane == lane && k.deleted == deleted && !paused:
		if k.group != obj.group {
			m.leaveGroup(k)
		}
		m.replaceChange(k, n)
		k.unseen = true
	default:
		m.leaveGroup(k)
		m.replaceChange(k, n)
		if m.isHeld(k, m.round.now) {
			return nil
		}
		return k.taken()
	}
	return nil
}

// taken makes a key have its turn.
func (k *modelKey) taken() *modelKey {
	k.rest(Taken)
	k.from, k.unseen = Ready, !k.tried
	return k
}

// observeReady records a change that is to wait for its turn.
func (m *model) observeReady(c Change[row]) {
	if k := m.observe(c); k != nil {
		m.readyOrPaused(k)
		m.lineUp(k)
	}
}

// note stores a change of a key in flight. The latest change counts, but it is unreconciled since
// the first one that asked for the same.
func (m *model) note(k *modelKey, n *modelNote) {
	old := k.note
	if !n.settled && (old == nil || !old.settled || n.revision > old.revision) {
		// The earlier change is reconciled only together with this one.
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
	case old == nil && !n.settled && k.since > 0 && !k.deleted && !n.deleted && m.same(k.obj, n.obj):
		n.since = min(n.since, k.since)
	}
	k.note = n
}

// observeSettled records a row that asks for no operation, and reports whether its key is
// forgotten.
func (m *model) observeSettled(obj row, revision uint64, says RowStatus) bool {
	m.observed = max(m.observed, revision)
	k := m.keys[obj.key]
	switch {
	case k == nil || revision <= k.version:
	case k.state == InFlight:
		m.note(k, &modelNote{obj: obj, revision: revision, settled: true, unset: says == RowUnset, done: says == RowDone})
	case says == RowUnset, k.deleted, says == RowDone && (k.state == Terminal || k.home != nil && k.home.state == Terminal):
		m.forget(k)
		return true
	case k.state == Unseen:
		m.calm(k, obj, revision, 0)
	}
	return false
}

// calm makes a key wait for its retry again whose change turned out to ask for nothing.
func (m *model) calm(k *modelKey, obj row, revision uint64, jitter float64) {
	k.obj, k.version, k.fixed = obj, revision, false
	m.backOff(k, Retry, k.attempted, k.failures, jitter)
}

func (m *model) forget(k *modelKey) {
	m.leaveGroup(k)
	delete(m.keys, k.key)
}

// leaveGroup is called when a key no longer needs its group. If the key held it, the first key that
// waits becomes the holder and goes back to where it came from.
func (m *model) leaveGroup(k *modelKey) {
	group := k.group
	k.group = ""
	if group == "" || m.holders[group] != k.key {
		return
	}
	delete(m.holders, group)
	m.refreshed[group] = !m.refreshed[group]
	first, second := m.waitingFor(group, m.refreshed[group]), m.waitingFor(group, !m.refreshed[group])
	waiting := append(first, second...)
	if len(waiting) == 0 {
		delete(m.refreshed, group)
		return
	}
	next := waiting[0]
	m.holders[group] = next.key
	if next.from == Ready {
		m.readyOrPaused(next)
		m.jumpIn(next)
	} else {
		m.wake(next, next.from, next.at)
	}
}

// waitingFor returns the keys that wait for a group: those to refresh, or the others.
func (m *model) waitingFor(group string, refreshes bool) []*modelKey {
	return m.inLine(func(k *modelKey) bool {
		return k.state == Queued && k.group == group && (k.lane == Refresh) == refreshes
	})
}

// release makes a blocked key due, and reports whether it was blocked.
func (m *model) release(key string, now time.Duration) bool {
	k := m.keys[key]
	if k == nil || k.state != Blocked && (k.home == nil || k.home.state != Blocked) {
		return false
	}
	return m.hurry(k, now, false)
}

// addOrphan adds an object that the target has and the table does not.
func (m *model) addOrphan(obj row, revision uint64) bool {
	if m.keys[obj.key] != nil {
		return false
	}
	k := &modelKey{key: obj.key}
	m.keys[obj.key] = k
	m.replaceChange(k, &modelNote{obj: obj, revision: revision, deleted: true})
	k.seen, k.since, k.tried, k.orphan = -1, m.observed+1, true, true
	m.resume(k)
	return true
}

// setPaused sets which objects must not be worked on.
func (m *model) setPaused(now time.Duration, paused func(row) bool) {
	m.paused = paused
	byVersion := func(a, b *modelKey) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.key, b.key))
	}
	resumed := m.inLine(func(k *modelKey) bool { return k.state == Paused && !m.isPaused(k) })
	begun := m.inLine(func(k *modelKey) bool { return (k.state == Ready || k.state == Queued) && m.isPaused(k) })
	slices.SortFunc(resumed, byVersion)
	slices.SortFunc(begun, byVersion)
	for _, k := range begun {
		if k.state == Ready {
			k.from = Ready
		}
		k.rest(Paused)
		k.unseen = false
	}
	// A group goes to no key that is paused now.
	for _, k := range begun {
		m.leaveGroup(k)
	}
	for _, k := range resumed {
		if k.from == Ready {
			m.resume(k)
		} else {
			m.wake(k, k.from, now)
		}
	}
}

func (m *model) isPaused(k *modelKey) bool { return m.paused != nil && m.paused(k.obj) }
