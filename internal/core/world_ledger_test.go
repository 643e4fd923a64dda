// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"time"

	"github.com/stretchr/testify/require"
)

// besideLedger is what a ledger beside the table knows, and what it told the readers last. It does what
// internal/ledger does, without tables.
type besideLedger struct {
	records map[string]Record[row]
	// Every change up to mark was attempted or has a record.
	mark uint64
	// done has the revision of each row that was told to be done.
	done map[string]uint64
}

// publish takes the records and moves the mark, and checks what the readers see. Changes that were observed
// by the given time cease to hold the mark.
func (w *world) publish(until time.Duration) {
	l := w.ledger
	if l == nil {
		return
	}
	w.core.Index.TakeRecords(until, func(r Record[row]) {
		if _, had := l.records[r.Key]; !had {
			w.model.requireRecordIsDue(w.t, r, until)
		}
		if r.Kind == NotRecorded {
			require.Contains(w.t, l.records, r.Key, "a record that is not there was removed")
			delete(l.records, r.Key)
		} else {
			l.records[r.Key] = r
		}
	})
	w.core.Index.TakeRecords(until, func(r Record[row]) { require.Fail(w.t, "a record was taken twice", "%+v", r) })
	w.model.requireRecords(w.t, w.core, l.records, until)

	mark := w.observed
	if since, _, holds := w.core.Index.HoldsSince(); holds {
		mark = min(mark, since-1)
	}
	l.mark = max(l.mark, mark)
	w.requireTold()
}

// requireTold checks what readers are told of each row: it is done only if this version was applied, and
// stays so until a later run fails.
func (w *world) requireTold() {
	l := w.ledger
	for key, r := range w.table {
		if r.deleted {
			continue
		}
		record, has := l.records[key]
		switch {
		case r.revision <= l.mark && !has:
			require.Equal(w.t, r.pendingID, w.reached[key], "%q of %d is told to be done, and was not applied", key, r.revision)
			l.done[key] = r.revision
		case l.done[key] == r.revision:
			require.True(w.t, has && (record.Kind == RecordedFailed || record.Kind == RecordedBlocked),
				"%q of %d was done before, and no run has failed since: %+v", key, r.revision, record)
			delete(l.done, key)
		}
	}
}

// again has an object run again whose row has not changed, if it exists and a cursor has read the row.
func (w *world) again(key string, forced bool) {
	r, ok := w.table[key]
	if w.ledger == nil || !ok || r.deleted || w.core.Index.LaneSize(Refresh) >= w.model.limits.RoundSize {
		return
	}
	if r.revision > w.observed && !w.dealtWith(r) {
		return
	}
	running := w.model.again(w.now, r, r.revision, forced)
	require.Equal(w.t, running, w.core.Again(w.now, r, r.revision, forced), "whether an operation on %q runs", key)
	w.requireSound()
}

// dealtWith reports whether a version was handed over, or applied, before main reads it. The rows do not
// show it.
func (w *world) dealtWith(r row) bool { return w.ledger != nil && w.isAhead(r) }

// noteApplied records that a version was applied, perhaps before main has read it.
func (w *world) noteApplied(r row) {
	if w.ledger != nil && r.revision > w.observed {
		w.ahead[r.key] = max(w.ahead[r.key], r.revision)
	}
}
