// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Item is one operation of a plan.
type Item[Obj any] struct {
	// Obj is the version of the object that was observed last, Revision its
	// revision.
	Obj      Obj
	Revision uint64
	// Deleted: the object is gone from the table and has to leave the target.
	Deleted bool
	// Again: the key waited; Obj may be older than the table by now, so that
	// the current version has to be looked up.
	Again bool
	// Mark is that of the key's last outcome; 0 if it has had none.
	Mark  uint8
	entry *entry[Obj]
}

// Waited reports whether the key has an entry. An item that is done and whose key has
// none need not be settled.
func (it *Item[Obj]) Waited() bool { return it.entry != nil }

// Attempt returns the number of failures in a row that the key has had before
// this item.
func (it *Item[Obj]) Attempt() int {
	if it.entry == nil {
		return 0
	}
	return int(it.entry.failures)
}

// round is the state between Begin and End.
type round[Obj any] struct {
	now time.Duration
	// changes are the items observed in this round, in revision order.
	changes []Item[Obj]
	// due are the entries taken into this round because their time has come,
	// ready those that the last round had planned and did not get to. Slots of
	// those whose object turned out to have changed are nil.
	due, ready []*entry[Obj]
	// unlisted are the entries that are not in byRevision yet, in the order of what
	// they owe: those held back in this round, then those that were reconciled and
	// are not any more. They enter it each in its turn, so that this stays cheap.
	unlisted []*entry[Obj]
	items    []Item[Obj]
}

// share says how much is guaranteed to keys whose time has come: every fourth item,
// counted over the rounds, so that it holds for rounds that are smaller or cut short.
const share = 4

// Begin starts a round at the given time.
func (c *Core[Obj]) Begin(now time.Duration) {
	c.round.now = now
	c.takeDue(c.guaranteed())
	c.takeReady(c.Room())
}

// guaranteed returns how many items of a full round are for keys whose time has come.
func (c *Core[Obj]) guaranteed() int {
	first := (share - c.turn) % share
	return max(0, (c.roundSize-first+share-1)/share)
}

// takeDue takes up to n due entries into the round.
func (c *Core[Obj]) takeDue(n int) {
	for ; n > 0; n-- {
		e, at, ok := c.due.Min()
		if !ok || time.Duration(at) > c.round.now {
			return
		}
		c.due.Pop()
		c.round.due = c.take(e, c.round.due)
	}
}

// takeReady takes up to n entries that the last round did not get to.
func (c *Core[Obj]) takeReady(n int) {
	n = min(n, len(c.ready))
	for _, e := range c.ready[:n] {
		c.round.ready = c.take(e, c.round.ready)
	}
	c.ready = slices.Delete(c.ready, 0, n)
}

// sortReady puts the entries that were put back in this round, which are at the end,
// before the younger ones that stayed behind.
func (c *Core[Obj]) sortReady() {
	slices.SortFunc(c.ready, func(a, b *entry[Obj]) int { return cmp.Compare(a.since, b.since) })
}

// take puts an entry that has left its queue into a slot of the round.
func (c *Core[Obj]) take(e *entry[Obj], slots []*entry[Obj]) []*entry[Obj] {
	e.from = e.state
	c.move(e, Planned)
	e.pos = int32(len(slots))
	return append(slots, e)
}

// Room returns how many more changes fit into the round.
func (c *Core[Obj]) Room() int {
	return c.roundSize - len(c.round.due) - len(c.round.ready) - len(c.round.changes)
}

// Observe takes in a change: obj is wanted, or, if deleted, no longer wanted. The
// changes of a round come in revision order and no key comes twice.
func (c *Core[Obj]) Observe(obj Obj, revision uint64, deleted bool) {
	c.observed = revision
	e := c.find(obj)
	if e != nil {
		c.supersede(e, obj, revision, deleted)
		if e.state == Held {
			return
		}
	}
	c.round.changes = append(c.round.changes, Item[Obj]{
		Obj: obj, Revision: revision, Deleted: deleted, entry: e,
	})
}

// supersede makes an entry owe the given change in place of what it owed.
func (c *Core[Obj]) supersede(e *entry[Obj], obj Obj, revision uint64, deleted bool) {
	c.leave(e)
	c.byRevision.remove(e)
	e.obj, e.revision, e.since, e.deleted = obj, revision, revision, deleted
	if deleted {
		// A deletion does not inherit the wait that its object had earned.
		e.failures = 0
	}
	if earliest := after(e.lastAttempt, c.backoff.Min); e.failures > 0 && earliest > c.round.now {
		c.wait(e, Held, earliest)
		c.round.unlisted = append(c.round.unlisted, e)
		return
	}
	c.move(e, Planned)
}

// ObserveSettled takes in a change that asks for nothing: the object's status says
// that it is reconciled, failed or unset. It need be called only while Awaits: a key
// whose change was awaited and turns out to be this goes back to its retry.
func (c *Core[Obj]) ObserveSettled(obj Obj, revision uint64) {
	c.observed = revision
	e := c.find(obj)
	if e == nil || e.state != Awaited {
		return
	}
	if e.deleted {
		// The object is back, and asks for nothing: its deletion is void.
		c.setFailure(e, nil)
		c.forget(e)
		return
	}
	e.obj, e.revision = obj, revision
	c.wait(e, Retry, after(e.lastAttempt, c.backoff.Delay(int(e.failures))))
}

// Plan returns the round's items. Changes come in revision order; keys whose time has come
// come in the order in which they were due, so that a round that is cut short does not
// pass over the same ones every time, and take every fourth place while there are both.
// The slice is valid until End.
func (c *Core[Obj]) Plan() []Item[Obj] {
	c.takeDue(c.Room())
	if len(c.round.due)+len(c.round.ready) == 0 {
		return c.round.changes
	}
	due := waited(c.round.due)
	slices.SortFunc(due, func(a, b *entry[Obj]) int {
		return cmp.Or(cmp.Compare(a.dueAt, b.dueAt), cmp.Compare(a.revision, b.revision))
	})
	ready, changes := waited(c.round.ready), c.round.changes
	for place := c.turn; ; place++ {
		switch {
		case len(due) > 0 && (place%share == 0 || len(ready)+len(changes) == 0):
			c.round.items = append(c.round.items, due[0].item())
			due = due[1:]
		case len(ready) > 0:
			c.round.items = append(c.round.items, ready[0].item())
			ready = ready[1:]
		case len(changes) > 0:
			c.round.items = append(c.round.items, changes[0])
			changes = changes[1:]
		default:
			return c.round.items
		}
	}
}

// waited drops the empty slots; the entries that are left stay in the round.
func waited[Obj any](slots []*entry[Obj]) []*entry[Obj] {
	entries := slices.DeleteFunc(slots, func(e *entry[Obj]) bool { return e == nil })
	for _, e := range entries {
		e.pos = -1
	}
	return entries
}

func (e *entry[Obj]) item() Item[Obj] {
	return Item[Obj]{Obj: e.obj, Revision: e.revision, Deleted: e.deleted, Again: true, Mark: e.mark, entry: e}
}

// End closes the round. ran is the number of items whose operation was run.
func (c *Core[Obj]) End(ran int) {
	c.turn = (c.turn + ran) % share
	c.listBefore(math.MaxUint64)
	c.sortReady()
	c.round.changes = reuse(c.round.changes)
	c.round.due = reuse(c.round.due)
	c.round.ready = reuse(c.round.ready)
	c.round.items = reuse(c.round.items)
	c.round.unlisted = nil
}

// reuse empties a slice, so that it pins nothing, and keeps its memory.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}
