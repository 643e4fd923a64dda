// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// settle records the outcome of an item. waited reports whether the core had an entry for it.
func (m *model) settle(now time.Duration, it *Operation[row], waited bool, out Outcome[row]) {
	k := m.keys[it.Obj.key]
	failed := out.Kind == Failed || out.Kind == FailedForGood
	if out.Kind == Superseded || out.Kind == Void {
		m.notRun()
	}
	var note *modelNote
	var refresh bool
	k.unknown = false
	if out.Kind == Superseded {
		k.reason = nil
	}
	verify := k.verify
	if k.state == InFlight {
		note, refresh, k.note, k.refresh, k.verify = k.note, k.refresh, nil, false, false
	}
	k.looks, k.home = false, nil
	if verify && out.Kind != Void && out.Kind != Superseded && !out.Lost {
		defer m.refresh(now, out.Object, out.NewRevision, false, true)
	}
	defer m.leaveGroup(k)
	switch {
	case out.Kind == Void:
		m.forget(k)
		return
	case out.Kind == Superseded && !waited:
		m.forget(k)
		return
	case out.Kind == Superseded:
		k.rest(Unseen)
		k.unseen = false
		return
	case !waited && out.Lost && !failed:
		m.forget(k)
		return
	}
	k.orphan, k.repeat, k.reason, k.asked = false, false, nil, false
	if (out.Kind == BlockedOn || out.Kind == Deleting) && !out.Lost {
		k.reason = out.Text
	}
	k.attempted, k.tried, k.unseen, k.failure, k.mark = now, true, false, "", out.RowKind
	switch out.Kind {
	case Failed, FailedForGood:
		k.failures++
		k.tries++
		k.failure = *out.Text
	case Done, DoneAgain, Deleting:
		k.failures, k.tries = 0, 0
	}
	if (out.Kind == DoneAgain || out.Kind == Deleting) && out.Backoff {
		k.requeues++
	} else {
		k.requeues = 0
	}
	succeeded := out.Kind == Done || out.Kind == DoneAgain
	if note != nil && !out.Lost && note.revision <= out.NewRevision {
		note = nil // A cursor that lags has read an older version than the one that was run.
	}
	switch {
	case note != nil && note.settled && (note.unset || k.deleted):
		m.forget(k)
	case note != nil && note.settled && out.Lost && !succeeded:
		m.markUnreconciled(k)
		m.calm(k, note.obj, note.revision, out.Jitter)
		if refresh {
			m.runSoon(k, now)
		}
	case note != nil && !note.settled:
		m.follow(k, now, note)
	case refresh && (succeeded || !out.Lost):
		m.refreshAfter(k, now, out)
	case succeeded && out.Lost, out.Kind == Done:
		m.forget(k)
	case out.Lost:
		m.markUnreconciled(k)
		k.rest(Unseen)
	default:
		m.await(k, now, out)
	}
}

// markUnreconciled makes a reconciled key unreconciled since the revision after the last observed
// one: that of its row when the outcome is written. With records the row is not written.
func (m *model) markUnreconciled(k *modelKey) {
	switch {
	case k.since > 0:
	case m.records:
		k.since = k.version
	default:
		k.since = m.observed + 1
	}
}

// follow makes a key go on with the change that was observed while its operation ran.
func (m *model) follow(k *modelKey, now time.Duration, note *modelNote) {
	m.replaceChange(k, note)
	// The object must be looked up, whatever was observed since.
	k.seen = -1
	if !m.isHeld(k, now) {
		m.readyOrPaused(k)
		m.lineUp(k)
	}
}

// isHeld makes a changed key wait if it has just failed, and reports whether it does.
func (m *model) isHeld(k *modelKey, now time.Duration) bool {
	if k.failures == 0 || now >= k.attempted+m.limits.MinBackoff {
		return false
	}
	m.wake(k, Held, k.attempted+m.limits.MinBackoff)
	return true
}

// await puts a key into the state that its outcome asks for.
func (m *model) await(k *modelKey, now time.Duration, out Outcome[row]) {
	k.obj, k.version = out.Object, out.NewRevision
	k.fixed = out.Kind == Failed && out.Delay > 0
	if out.Kind == DoneAgain {
		k.since, k.lane = 0, Backlog
	} else {
		m.markUnreconciled(k)
	}
	switch {
	case k.fixed:
		m.wake(k, Retry, now+out.Delay)
	case out.Kind == Failed:
		m.backOff(k, Retry, now, k.failures, out.Jitter)
	case out.Kind == FailedForGood:
		k.rest(Terminal)
	case out.Kind == DoneAgain && out.Backoff:
		m.backOff(k, Requeue, now, k.requeues, out.Jitter)
	case out.Kind == DoneAgain:
		m.wake(k, Requeue, now+out.Delay)
	case out.Kind == Deleting && out.Backoff:
		m.backOff(k, Blocked, now, k.requeues, out.Jitter)
	case out.Delay > 0, out.Kind == Deleting:
		m.wake(k, Blocked, now+out.Delay)
	default:
		k.rest(Blocked)
	}
}

// recall records that an operation was recalled.
func (m *model) recall(now time.Duration, it *Operation[row]) {
	k := m.keys[it.Obj.key]
	m.notRun()
	k.unknown = false
	note, drawn := k.note, k.drawn
	if k.refresh {
		defer m.runSoon(k, now)
	}
	k.note, k.refresh, k.verify = nil, false, false
	if note != nil && note.settled && (note.unset || k.deleted || note.done && (k.from == Terminal || k.home != nil && k.home.state == Terminal)) {
		m.leaveGroup(k)
		m.forget(k)
		return
	}
	if note != nil && !note.settled {
		if m.asksTheSame(k, note) {
			m.renew(k, note)
			if k.from == Held {
				// The end of the minimum backoff counts as the time when it was observed.
				k.seenAt = k.at
			}
		} else {
			if k.group != note.obj.group {
				m.leaveGroup(k)
			}
			m.replaceChange(k, note)
		}
		k.seen, k.from = -1, Ready
		if m.isHeld(k, now) {
			m.leaveGroup(k)
			return
		}
	}
	if it.Turn.Waited && k.from != Ready {
		k.unseen = false
		m.wake(k, k.from, k.at)
		k.drawn, k.clock = drawn, k.at != noTime
		return
	}
	m.readyOrPaused(k)
	m.jumpIn(k)
}

// lookUp records that an item was renewed to a later version, and reports whether it may still be
// run.
func (m *model) lookUp(it *Operation[row], obj row, revision, since uint64) bool {
	k := m.keys[it.Obj.key]
	n := &modelNote{obj: obj, revision: revision, since: since, lane: k.lane}
	if n.lane == Deletion {
		n.lane = Backlog
	}
	if m.asksTheSame(k, n) {
		k.obj, k.version, k.seen, k.since = obj, revision, m.round.number, min(k.since, since)
	} else {
		m.replaceChange(k, n)
	}
	k.from, k.unseen, k.unknown = Ready, !k.tried, false
	if k.group != obj.group {
		m.leaveGroup(k)
	}
	if m.isPaused(k) {
		m.park(k)
		m.leaveGroup(k)
		m.notRun()
		return false
	}
	if !m.grouping || obj.group == "" || k.group != "" {
		return true
	}
	k.group = obj.group
	if m.holders[k.group] == "" {
		m.holders[k.group] = k.key
		return true
	}
	k.rest(Queued)
	m.lineUp(k)
	m.notRun()
	return false
}

// goBack records that an operation has only looked, and leaves its key as it was.
func (m *model) goBack(now time.Duration, it *Operation[row]) {
	k := m.keys[it.Obj.key]
	h, again := k.home, k.verify
	k.from, k.at, k.drawn, k.fixed, k.looks, k.asked, k.home = h.state, h.at, h.drawn, h.fixed, false, h.asked, nil
	if !h.clock {
		k.at = noTime
	}
	m.recall(now, it)
	if m.keys[k.key] != k {
		return
	}
	m.leaveGroup(k)
	if again {
		m.look(k, now)
	}
}

// look makes a key due that waits, so that it is looked at.
func (m *model) look(k *modelKey, now time.Duration) {
	waits := k.state == Retry || k.state == Requeue || k.state == Blocked
	if k.home != nil || waits && k.clock && k.at <= now || k.asked || !waits && k.state != Terminal {
		return
	}
	k.home, k.looks = &modelHome{k.state, k.at, k.drawn, k.fixed && k.state != Terminal, k.clock, false}, true
	if k.state == Terminal {
		k.state, k.fixed = Retry, true
	}
	m.wake(k, k.state, now)
}

// refresh records that an object is refreshed, or verified, and reports whether an operation on it is running.
func (m *model) refresh(now time.Duration, obj row, revision uint64, forced, verify bool) (running bool) {
	k := m.keys[obj.key]
	if k == nil {
		k = &modelKey{key: obj.key, obj: obj, version: revision, lane: Refresh, seen: -1, tried: true, repeat: true, looks: verify, asked: !verify}
		m.keys[obj.key] = k
		m.readyOrPaused(k)
		m.lineUp(k)
		return false
	}
	reconciled := k.since == 0
	switch {
	case verify && k.state == InFlight:
		k.verify = k.verify || !k.deleted
	case verify:
		if !k.deleted {
			m.look(k, now)
		}
	case k.state != InFlight:
		if reconciled && k.state != Ready && k.lane != Refresh {
			k.lane = Refresh
			if k.state == Queued {
				m.lineUp(k)
			}
		}
		if reconciled || forced {
			m.runSoon(k, now)
		}
	case !k.deleted && (forced || reconciled && (k.lane != Refresh || k.looks)):
		k.refresh = true
	}
	return k.state == InFlight
}

// runSoon makes a key due, but not before its minimum backoff has passed if it fails.
func (m *model) runSoon(k *modelKey, now time.Duration) {
	if k.failures > 0 {
		now = max(now, k.attempted+m.limits.MinBackoff)
	}
	k.looks, k.asked = false, k.asked || k.looks
	m.hurry(k, now, true)
}

// hurry makes a key due that waits for a time or for a channel, or was given up, and reports whether it did. asked: to be
// refreshed.
func (m *model) hurry(k *modelKey, at time.Duration, asked bool) bool {
	switch k.state {
	case Held, Retry, Requeue, Blocked:
		due, drawn, clock := k.at, k.drawn, k.clock
		if h := k.home; h != nil {
			// What is due now is the look.
			if due, drawn, clock = h.at, h.drawn, h.clock; h.state == Terminal {
				k.tries, clock = 0, false
			}
		}
		k.looks, k.asked, k.home = false, asked, nil
		earliest := at
		if clock {
			// The core may have drawn jitter for the wait that ends here.
			at, earliest = min(at, due), min(at, due-drawn)
		}
		m.wake(k, k.state, at)
		k.drawn = at - earliest
	case Terminal:
		k.tries, k.asked = 0, asked
		m.wake(k, Retry, at)
	default:
		if k.home == nil {
			return false
		}
		// It is due when it was looked at.
		if h := k.home; h.state == Terminal {
			k.tries, *h = 0, modelHome{Retry, at, 0, true, true, false}
		} else if !h.clock {
			h.at, h.drawn, h.clock = at, 0, true
		} else {
			earliest := min(at, h.at-h.drawn)
			h.at = min(at, h.at)
			h.drawn = h.at - earliest
		}
		k.home.asked = asked
	}
	return true
}

// refreshAfter refreshes a key whose operation has ended, and did not count if it succeeded.
func (m *model) refreshAfter(k *modelKey, now time.Duration, out Outcome[row]) {
	if out.Kind != Done && out.Kind != DoneAgain {
		m.await(k, now, out)
		m.runSoon(k, now)
		return
	}
	k.lane, k.seen, k.asked = Refresh, -1, true
	// If it was reconciled, it still is.
	k.repeat = k.since == 0
	m.readyOrPaused(k)
	m.lineUp(k)
}

// record returns the record that an unreconciled key has, if it has one. lacks reports whether it may
// have none: because its change holds the mark, or because it is an orphan, which no row shows as done. A
// reconciled key has the kind NotRecorded.
func (m *model) record(k *modelKey) (r Record[row], lacks bool) {
	r = Record[row]{Key: k.key, Obj: k.obj, Revision: k.version, Deleted: k.deleted}
	switch {
	case k.unreconciledSince() == 0:
		return r, true
	case k.notesChange():
		r.Obj, r.Revision, r.Deleted, r.Kind = k.note.obj, k.note.revision, k.note.deleted, RecordedPending
	case !k.tried:
		r.Kind = RecordedPending
	case k.reason != nil:
		r.Kind, r.Text = RecordedBlocked, k.reason
	case k.failure != "":
		r.Kind, r.Text = RecordedFailed, &k.failure
	default:
		// It was applied, and has to be applied again.
		r.Kind = RecordedPending
	}
	return r, r.Kind == RecordedPending && (m.untried(k) > 0 || k.orphan && k.tried)
}

// requireRecordIsDue checks that a change which may hold the mark got no record too early. One that was read
// while an operation ran on a key that was reconciled may get it earlier.
func (m *model) requireRecordIsDue(t testingT, r Record[row], until time.Duration) {
	if k := m.keys[r.Key]; r.Kind == RecordedPending && k.unseen {
		require.LessOrEqual(t, k.seenAt, until, "%q has a record too early", r.Key)
	}
}

// requireRecords checks the records that a ledger has, right after it has taken those that changed: the
// lowest change that holds the mark was observed after until.
func (m *model) requireRecords(t testingT, c *Core[row], records map[string]Record[row], until time.Duration) {
	for key := range records {
		require.Contains(t, m.keys, key, "%q has a record and no entry", key)
	}
	var holds []*modelKey
	for key, k := range m.keys {
		want, lacks := m.record(k)
		got, has := records[key]
		switch {
		case has:
			require.Equal(t, want, got, "record of %q in state %s", key, k.state)
		case want.Kind == NotRecorded:
		default:
			require.True(t, lacks, "%q in state %s has no record: %+v", key, k.state, want)
			if m.untried(k) > 0 {
				holds = append(holds, k)
			}
		}
	}
	since, observed, ok := c.Index.HoldsSince()
	same(t, len(holds) > 0, ok, "whether a change holds the mark")
	if !ok {
		return
	}
	lowest := slices.MinFunc(holds, func(a, b *modelKey) int { return cmp.Compare(m.untried(a), m.untried(b)) })
	same(t, m.untried(lowest), since, "the lowest change that holds the mark")
	require.Greater(t, observed, until, "%q holds the mark and must have a record", lowest.key)
	require.True(t, slices.ContainsFunc(holds, func(k *modelKey) bool {
		// For a key that is held, the end of the minimum backoff counts as the time when its change was observed.
		held := k.from == Held && (observed < k.seenAt || observed == k.at)
		return m.untried(k) == since && (k.seenAt == observed || held || !k.unseen)
	}), "the change at %d was not observed at %v", since, observed)
}
