// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

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

// TakeRecords calls yield for each key whose record may have changed since the last call, in the
// order of these changes. A key with the kind NotRecorded has no record any more. It is called between
// two rounds.
func (c *Core[Obj]) TakeRecords(yield func(Record[Obj])) {
	for _, e := range c.touched {
		r := e.record()
		if r.Kind != NotRecorded || e.indexed.recorded != NotRecorded {
			yield(r)
		}
		e.indexed.touched, e.indexed.overdue, e.indexed.recorded = false, false, r.Kind
		c.reindex(e)
	}
	clear(c.touched)
	c.touched = c.touched[:0]
}

// HoldsSince returns the lowest revision of a change that has neither been attempted nor recorded;
// false if there is none.
func (c *Core[Obj]) HoldsSince() (revision uint64, ok bool) {
	_, since, ok := c.untried[untriedHeld].Min()
	return uint64(since), ok
}

// HoldsAbove is HoldsSince for the changes above a revision. Its cost grows with the number of changes
// up to that revision.
func (c *Core[Obj]) HoldsAbove(revision uint64) (above uint64, ok bool) {
	since, ok := c.untried[untriedHeld].MinAbove(int64(revision))
	return uint64(since), ok
}

// RecordUpTo makes every change up to a revision that has not been attempted have a record.
func (c *Core[Obj]) RecordUpTo(revision uint64) {
	c.untried[untriedHeld].Ascend(func(t untriedEntry[Obj], since int64) bool {
		if uint64(since) > revision {
			return false
		}
		t.indexed.overdue = true
		c.reindex(t.entry)
		return true
	})
}

// recordAtOnce makes a change that has not been attempted have a record, if there is a catch-up cursor
// and the change does not hold the mark at its own revision: it is unreconciled since a lower one, or
// a cursor has read later changes before. Else an interval that has its revision would count it as
// attempted, or lose revisions that it had.
func (c *Core[Obj]) recordAtOnce(e *entry[Obj]) {
	if c.round.maxFresh > 0 && e.indexed.recorded == NotRecorded && e.untriedSince() > 0 {
		e.indexed.overdue = true
	}
}

// record returns the record of an entry.
func (e *entry[Obj]) record() Record[Obj] {
	r := Record[Obj]{Key: e.key, Obj: e.obj, Revision: e.revision, Deleted: e.deleted, Kind: e.recordKind()}
	if r.Kind == RecordedFailed || r.Kind == RecordedBlocked {
		r.Text = e.text
	}
	return r
}

// recordKind returns the kind of the record that the key of an entry must have.
func (e *entry[Obj]) recordKind() Recorded {
	switch {
	case e.unreconciled().since == 0:
		return NotRecorded
	case e.tried && e.cause == CauseSweep:
		// No row shows an orphan as done.
		return NotRecorded
	case e.tried && e.result == wasBlocked:
		return RecordedBlocked
	case e.tried && e.result == hasFailed:
		return RecordedFailed
	case e.untriedSince() > 0 && e.indexed.recorded == NotRecorded && !e.indexed.overdue:
		// The change holds the mark.
		return NotRecorded
	}
	return RecordedPending
}
