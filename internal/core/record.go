// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// A ledger beside the table has a record of each key that is not reconciled. The core tells it which
// records have changed, and which changes have neither been attempted nor recorded: these hold the
// ledger's mark.

// Recorded is the kind of a record.
type Recorded uint8

const (
	// NotRecorded: the key has no record. It is reconciled, or its change holds the mark.
	NotRecorded Recorded = iota
	// RecordedPending: the change has not been attempted.
	RecordedPending
	// RecordedFailed: the last attempt failed.
	RecordedFailed
	// RecordedBlocked: the last attempt was blocked.
	RecordedBlocked
)

// Record is what a ledger beside the table has to know about a key.
type Record[Obj any] struct {
	Key string
	// Obj and Revision are the latest version that was observed.
	Obj      Obj
	Revision uint64
	Deleted  bool
	Kind     Recorded
	// Text is the text of the error or of the reason; nil if there is none.
	Text *string
}

// TakeRecords calls yield for each key whose record may have changed since the last call. A key with the
// kind NotRecorded has no record any more. If the lowest change that holds the mark was observed at the
// given time or earlier, it gets a record, and then the next one. TakeRecords is called between two rounds.
func (x *Index[Obj]) TakeRecords(until time.Duration, yield func(Record[Obj])) {
	for _, e := range x.touched {
		e.indexed.touched = false
		x.takeRecord(e, e.recordKind(), yield)
	}
	x.touched = reuse(x.touched)
	for {
		t, _, ok := x.untried[untriedHeld].Min()
		if !ok || t.dueAt > until {
			return
		}
		x.takeRecord(t.entry, RecordedPending, yield)
	}
}

// takeRecord calls yield with the record of an entry, of the given kind, unless the key has none and had none.
func (x *Index[Obj]) takeRecord(e *entry[Obj], kind Recorded, yield func(Record[Obj])) {
	if v := e.newest(); kind != NotRecorded || e.indexed.recorded != NotRecorded {
		r := Record[Obj]{Key: e.key, Obj: v.obj, Revision: v.revision, Deleted: v.deleted, Kind: kind}
		if kind == RecordedFailed || kind == RecordedBlocked {
			r.Text = e.past.text
		}
		yield(r)
	}
	x.reindexAs(e, kind)
}

// HoldsSince returns the lowest revision of a change that holds the mark, and when the change was observed;
// false if there is none. The time may be earlier for a change that was read while an operation ran: when that
// operation was due, or the end of the minimum backoff after it.
func (x *Index[Obj]) HoldsSince() (revision uint64, observed time.Duration, ok bool) {
	t, since, ok := x.untried[untriedHeld].Min()
	if !ok {
		return 0, 0, false
	}
	return uint64(since), t.dueAt, true
}

// recordKind returns the kind of the record that the key of an entry must have, as long as its change may
// hold the mark.
func (e *entry[Obj]) recordKind() Recorded {
	untried, tried := e.untriedSince() > 0, e.newest().tried
	switch {
	case e.unreconciled().since == 0:
		return NotRecorded
	case tried && e.cause == CauseOrphan && !untried:
		// No row shows an orphan as done.
		return NotRecorded
	case tried && e.past.result == wasBlocked:
		return RecordedBlocked
	case tried && e.past.result == hasFailed:
		return RecordedFailed
	case untried && e.indexed.recorded == NotRecorded:
		return NotRecorded
	}
	return RecordedPending
}
