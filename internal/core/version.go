// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// rowVersion is a version of an object, as it was observed, and how far it was dealt with.
type rowVersion[Obj any] struct {
	obj Obj
	// revision is the revision of obj. since is the revision since which the key is not reconciled: that
	// of the first version that asked for the same or, for a key that fails after it was reconciled, as
	// in unreconcile. It is 0 if the key is reconciled, or the row asks for no operation.
	revision, since uint64
	// wanted is when the change was written; 0 means that the time must be read from the object.
	wanted time.Duration
	// seen is the number of the round in which the version was observed.
	seen    uint32
	lane    Lane
	deleted bool
	// tried: an operation was attempted for the change. paused: the object must not be worked on. void: the
	// outcome of the operation that runs the version does not count, see [Core.Again].
	tried, paused, void bool
	asks                asks
}

// asks is what a row asks for that was read while an operation on its key ran.
type asks uint8

const (
	// asksChange: an operation, like every version that is not read while one runs.
	asksChange asks = iota
	// asksNothing: the row asks for no operation. asksNothingUnset: because it has no status.
	asksNothing
	asksNothingUnset
	// asksAgain: the row has not changed, and the outcome of the operation does not count, see
	// [Core.Again].
	asksAgain
)

// versionOf returns the version of a change that is observed in this round.
func (c *Core[Obj]) versionOf(change *Change[Obj]) rowVersion[Obj] {
	v := rowVersion[Obj]{
		obj: change.Obj, revision: change.Revision, since: change.Since, seen: c.rounds, lane: change.Lane,
		deleted: change.Deleted, paused: c.isPaused(change.Obj),
	}
	if v.deleted {
		v.wanted = max(1, c.round.now)
	}
	return v
}

// running returns the version that the operation of an entry in flight runs; for any other entry, the
// version of the entry.
func (e *entry[Obj]) running() *rowVersion[Obj] {
	if e.runs != nil {
		return e.runs
	}
	return &e.rowVersion
}

// runsNewest reports whether the operation of an entry in flight runs the newest version.
func (e *entry[Obj]) runsNewest() bool {
	return e.state == InFlight && (e.runs == nil || e.asks == asksAgain)
}

// overtake stores a version that was read while the operation of an entry runs an older one.
func (c *Core[Obj]) overtake(e *entry[Obj], v rowVersion[Obj]) {
	if e.runs == nil {
		runs := e.rowVersion
		e.runs = &runs
	} else if v.asks == asksChange && e.asks == asksChange && c.same(&e.rowVersion, &v) {
		v.since = min(v.since, e.since)
	}
	e.rowVersion = v
	if v.asks == asksChange {
		e.runs.lowerSince(v.since)
	}
	c.reindex(e)
}

// same reports whether a version asks for the same as an older one.
func (c *Core[Obj]) same(older, newer *rowVersion[Obj]) bool {
	return c.samePending != nil && !older.deleted && !newer.deleted && c.samePending(older.obj, newer.obj)
}
