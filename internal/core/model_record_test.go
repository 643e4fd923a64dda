// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"

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

// requireRecords checks the records that a ledger has, right after it has taken those that changed.
// Until upTo every change has to have a record.
func (m *model) requireRecords(t testingT, c *Core[row], records map[string]Record[row], upTo uint64) {
	for key := range records {
		require.Contains(t, m.keys, key, "%q has a record and no entry", key)
	}
	var holds []uint64
	for key, k := range m.keys {
		want, lacks := m.record(k)
		got, has := records[key]
		switch {
		case has:
			require.Equal(t, want, got, "record of %q in state %s", key, k.state)
		case want.Kind == NotRecorded:
		default:
			require.True(t, lacks, "%q in state %s has no record: %+v", key, k.state, want)
			if since := m.untried(k); since > 0 {
				require.Greater(t, since, upTo, "%q has no record", key)
				holds = append(holds, since)
			}
		}
	}
	slices.Sort(holds)
	lowest, ok := c.HoldsSince()
	same(t, len(holds) > 0, ok, "whether a change holds the mark")
	if ok {
		same(t, holds[0], lowest, "the lowest change that holds the mark")
	}
	for _, from := range append(slices.Clone(holds), 0) {
		i := slices.IndexFunc(holds, func(since uint64) bool { return since > from })
		above, ok := c.HoldsAbove(from)
		same(t, i >= 0, ok, "whether a change holds the mark above %d", from)
		if ok {
			same(t, holds[i], above, "the lowest change above %d that holds the mark", from)
		}
	}
}
