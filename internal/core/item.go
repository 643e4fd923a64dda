// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Item is one planned operation on one object.
type Item[Obj any] struct {
	// Obj is the version of the object that was observed last, and Revision is its revision.
	Obj      Obj
	Revision uint64
	// since is the revision since which the change is not reconciled.
	since uint64
	entry *entry[Obj]
	// Deleted reports whether the object is gone from the table and must be removed from the
	// target.
	Deleted bool
	// Again reports whether the key has waited: then Obj may be older than the row in the table.
	Again bool
	// Mark is Outcome.Mark of the key's last outcome; 0 if there was none.
	Mark  uint8
	lane  Lane
	cause Cause
	// probe is the opening of the breaker for all errors that the item probes for; 0 if the item is
	// no probe.
	probe uint32
}

// HasEntry reports whether the key has an entry. An item without one that is done need not be
// settled, unless there are breakers.
func (it *Item[Obj]) HasEntry() bool { return it.entry != nil }

// Attempt returns the key's number of failures in a row before this item.
func (it *Item[Obj]) Attempt() int {
	if it.entry == nil {
		return 0
	}
	return int(it.entry.failures)
}

// Tries returns the key's number of failures since its object changed.
func (it *Item[Obj]) Tries() int {
	if it.entry == nil {
		return 0
	}
	return int(it.entry.tries)
}

// Since returns the revision since which the change of the item is not reconciled.
func (it *Item[Obj]) Since() uint64 { return it.since }

// Launched reports whether the operation of the item was launched and is not settled.
func (it *Item[Obj]) Launched() bool { return it.entry != nil && it.entry.state == InFlight }

// Untried reports whether the change of the item has not been attempted.
func (it *Item[Obj]) Untried() bool { return it.entry == nil || !it.entry.tried }

// Cause returns the reason why the item is run.
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

// from returns the state of the key before the round; Ready for a new change.
func (it *Item[Obj]) from() State {
	if it.entry == nil {
		return Ready
	}
	return it.entry.from
}

// Void reports whether the outcome of a launched item does not count, because [Core.Again] was forced while
// its operation ran. Call it before [Core.Settle].
func (it *Item[Obj]) Void() bool { return it.entry != nil && it.entry.running().void }

// Wanted returns when the item's change was written; 0 means that the time must be read from the
// object.
func (it *Item[Obj]) Wanted() time.Duration {
	if it.entry == nil {
		return 0
	}
	return it.entry.wanted
}

// Lane returns the lane of the item's change.
func (it *Item[Obj]) Lane() Lane { return it.lane }
