// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// besideLedger is what a ledger beside the table knows, and what it told the readers last. It does what
// internal/ledger does, without tables.
type besideLedger struct {
	records map[string]Record[row]
	// Every change up to mark, and in ahead, was attempted or has a record. ahead are the ranges of the
	// catch-up cursor that the mark has not passed.
	mark  uint64
	ahead []span
	// applied has the highest revision of a key that was applied before main had read it.
	applied map[string]uint64
	// done has the revision of each row that was told to be done.
	done map[string]uint64
}

// span is a range of revisions: those above after and up to upTo.
type span struct{ after, upTo uint64 }

func (s span) has(revision uint64) bool { return revision > s.after && revision <= s.upTo }

// covers reports whether a change with the revision was attempted or has a record.
func (l *besideLedger) covers(revision uint64) bool {
	return revision <= l.mark || slices.ContainsFunc(l.ahead, func(s span) bool { return s.has(revision) })
}

// publish takes the records and moves the mark, and checks what the readers see. Changes that were observed
// by the given time cease to hold the mark; all do if there are ranges of the catch-up cursor, or were.
func (w *world) publish(until time.Duration) {
	l := w.ledger
	if l == nil {
		return
	}
	upTo, ahead := w.read()
	if len(l.ahead)+len(ahead) > 0 {
		until = math.MaxInt64
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

	mark := upTo
	if since, _, holds := w.core.Index.HoldsSince(); holds {
		mark = min(mark, since-1)
	}
	l.mark, l.ahead = max(l.mark, mark), ahead
	w.requireTold()
}

// read returns the revision up to which all rows were read, and the ranges above it in which they were.
func (w *world) read() (upTo uint64, ahead []span) {
	if w.catchUp == nil {
		return w.observed, nil
	}
	unread := w.catchUp.unread
	for i := range len(unread) - 1 {
		if unread[i].upTo < unread[i+1].after {
			ahead = append(ahead, span{unread[i].upTo, unread[i+1].after})
		}
	}
	return unread[0].after, ahead
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
		case l.covers(r.revision) && !has:
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
func (w *world) dealtWith(r row) bool {
	return w.ledger != nil && (w.appliedEarly(r) || w.wasRead(r.revision))
}

// appliedEarly reports whether a version, or a later one, was applied before a cursor read it.
func (w *world) appliedEarly(r row) bool {
	return w.ledger != nil && r.revision <= w.ledger.applied[r.key]
}

// noteApplied records that a version was applied, perhaps before main has read it.
func (w *world) noteApplied(r row) {
	if l := w.ledger; l != nil && r.revision > w.observed && !w.wasRead(r.revision) {
		l.applied[r.key] = r.revision
	}
}
