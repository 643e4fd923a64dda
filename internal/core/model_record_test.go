// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

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
	return r, r.Kind == RecordedPending && (m.untried(k) > 0 || k.swept && k.tried)
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
