// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Item is one operation of a plan.
type Item[Obj any] struct {
	// Obj is the version of the object that was observed last, Revision its
	// revision.
	Obj      Obj
	Revision uint64
	// since is the revision from which on the change is owed.
	since uint64
	entry *entry[Obj]
	// Deleted: the object is gone from the table and has to leave the target.
	Deleted bool
	// Again: the key waited, so that Obj may be older than the table by now.
	Again bool
	// Mark is that of the key's last outcome; 0 if it has had none.
	Mark  uint8
	lane  Lane
	cause Cause
	// probe is the opening of the breaker for everything that the item passed; 0 if it
	// was not open.
	probe uint32
}

// HasEntry reports whether the key has an entry. An item that is done and whose key has
// none need not be settled, unless there is a breaker.
func (it *Item[Obj]) HasEntry() bool { return it.entry != nil }

// Attempt returns the number of failures in a row that the key has had before
// this item.
func (it *Item[Obj]) Attempt() int {
	if it.entry == nil {
		return 0
	}
	return int(it.entry.failures)
}

// Tries returns the number of failures that the key has had since its object changed.
func (it *Item[Obj]) Tries() int {
	if it.entry == nil {
		return 0
	}
	return int(it.entry.tries)
}

// Since returns the revision from which on the item's change is owed.
func (it *Item[Obj]) Since() uint64 { return it.since }

// Launched reports whether the item's operation was launched, and has not been settled.
func (it *Item[Obj]) Launched() bool { return it.entry != nil && it.entry.state == InFlight }

// Untried reports whether the item's change has not been attempted.
func (it *Item[Obj]) Untried() bool { return it.entry == nil || !it.entry.tried }

// Cause returns why the item is run.
func (it *Item[Obj]) Cause() Cause {
	switch {
	case it.probe > 0:
		return CauseProbe
	case it.cause != CauseChange:
		return it.cause
	}
	switch it.from() {
	case Retry:
		return CauseRetry
	case Requeue:
		return CauseRequeue
	case Blocked:
		return CauseRecheck
	}
	if it.lane == Refresh {
		return CauseRefresh
	}
	return CauseChange
}

// from returns the state that the item's key was in before the round; Ready for a change.
func (it *Item[Obj]) from() State {
	if it.entry == nil || it.entry.from == Planned {
		return Ready
	}
	return it.entry.from
}

// Wanted returns when the change that the item's key owes was written; 0 if only the
// object tells.
func (it *Item[Obj]) Wanted() time.Duration {
	if it.entry == nil {
		return 0
	}
	return it.entry.wanted
}

// Lane returns the lane that the item's change came by.
func (it *Item[Obj]) Lane() Lane { return it.lane }
