// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import "time"

// Kind says what came of an item.
type Kind uint8

const (
	// Done: the target has it.
	Done Kind = iota
	// Failed: to be retried after the backoff of its key, or after Delay if that
	// is positive.
	Failed
	// FailedForGood: not to be retried until the object changes.
	FailedForGood
	// BlockedOn: to be run again when released, after Delay at the latest if that
	// is positive.
	BlockedOn
	// DoneAgain: done, and to be run again after Delay. Should it fail then, it
	// counts as unreconciled since then, not since its old revision.
	DoneAgain
	// Void: not run, because nothing is left to be done: an object that was to
	// leave the target is back in the table.
	Void
	// Superseded: not run, because the object has changed since the plan's
	// version; the change is still to be observed. Only for items that waited
	// (Again): any other is a change that has just been observed.
	Superseded
)

// Outcome is what came of one item.
type Outcome[Obj any] struct {
	Kind  Kind
	Delay time.Duration
	// Failure is the error's text for the kinds that failed, else nil.
	Failure *string
	// Lost: the operation ran, and the object changed or was deleted meanwhile.
	// The change is still to be observed, so that it, not the outcome, says what
	// comes next; but an attempt is an attempt, and counts for the backoff.
	Lost bool
	// Obj and Revision are the version of the object that stands in the table
	// now, unless Lost; for a deleted object the item's own.
	Obj      Obj
	Revision uint64
	// Mark is a note of the caller's that comes back in Item.Mark.
	Mark uint8
}

// Settle records what came of an item, now being when its operation ended.
func (c *Core[Obj]) Settle(now time.Duration, it *Item[Obj], out Outcome[Obj]) {
	e := it.entry
	if e == nil {
		if out.Kind == Done || out.Kind == Void || out.Kind == Superseded ||
			out.Lost && out.Kind != Failed && out.Kind != FailedForGood {
			return
		}
		e = c.enter(it.Obj)
		e.since, e.revision, e.deleted = it.Revision, it.Revision, it.Deleted
	}
	if out.Kind == Superseded {
		c.move(e, Awaited)
		return
	}
	e.lastAttempt, e.mark = now, out.Mark
	switch out.Kind {
	case Failed, FailedForGood:
		e.failures++
		c.setFailure(e, out.Failure)
	case BlockedOn:
		c.setFailure(e, nil)
	default:
		e.failures = 0
		c.setFailure(e, nil)
	}
	if !out.Lost {
		e.obj, e.revision = out.Obj, out.Revision
	}
	c.enlist(e, it, out)
	c.queue(e, out)
}

// enlist makes the entry's place in byRevision say whether it is reconciled.
func (c *Core[Obj]) enlist(e *entry[Obj], it *Item[Obj], out Outcome[Obj]) {
	switch {
	case out.Kind == DoneAgain:
		c.byRevision.remove(e)
	case out.Kind == Done || out.Kind == Void || e.listed:
	case it.Again:
		// It was reconciled, and is not any more. That is news, and to look for the
		// place of its old revision would cost a walk past all that failed since.
		e.since = c.observed + 1
		c.round.unlisted = append(c.round.unlisted, e)
	default:
		c.list(e)
	}
}

// list puts an entry into byRevision, after those of the round that owe an earlier
// change: in its turn, each is an insertion at the end.
func (c *Core[Obj]) list(e *entry[Obj]) {
	c.listBefore(e.since)
	c.byRevision.insert(e)
}

// listBefore lists those of the unlisted entries that owe a change before a revision.
func (c *Core[Obj]) listBefore(revision uint64) {
	unlisted := c.round.unlisted
	for len(unlisted) > 0 && unlisted[0].since < revision {
		c.byRevision.insert(unlisted[0])
		unlisted = unlisted[1:]
	}
	c.round.unlisted = unlisted
}

// queue puts an entry with an outcome where it waits.
func (c *Core[Obj]) queue(e *entry[Obj], out Outcome[Obj]) {
	now := e.lastAttempt
	switch {
	case out.Kind == Done || out.Kind == Void:
		c.forget(e)
	case out.Lost && out.Kind == DoneAgain:
		c.forget(e)
	case out.Lost:
		c.move(e, Awaited)
	case out.Kind == Failed && out.Delay > 0:
		c.wait(e, Retry, after(now, out.Delay))
	case out.Kind == Failed:
		c.wait(e, Retry, after(now, c.backoff.Delay(int(e.failures))))
	case out.Kind == FailedForGood:
		c.move(e, Terminal)
	case out.Kind == DoneAgain:
		c.wait(e, Requeue, after(now, out.Delay))
	case out.Delay > 0:
		c.wait(e, Blocked, after(now, out.Delay))
	default:
		c.move(e, Blocked)
	}
}

// Return puts an item back that the round did not get to: a change to the front of
// the next round, anything else to where it waited.
func (c *Core[Obj]) Return(it *Item[Obj]) {
	e := it.entry
	if e == nil {
		e = c.enter(it.Obj)
		e.since, e.revision, e.deleted = it.Revision, it.Revision, it.Deleted
	}
	if it.Again && e.from != Ready {
		c.wait(e, e.from, e.dueAt)
		return
	}
	if !e.listed {
		c.list(e)
	}
	c.move(e, Ready)
	c.ready = append(c.ready, e)
}

// Release makes a blocked key due at the given time. It reports whether the key
// was blocked.
func (c *Core[Obj]) Release(key string, now time.Duration) bool {
	e := c.entries[key]
	if e == nil || e.state != Blocked {
		return false
	}
	c.leave(e)
	c.wait(e, Blocked, now)
	return true
}
