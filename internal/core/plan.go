// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"time"
)

// Item is one operation of a plan.
type Item[Obj any] struct {
	// Obj is the version of the object that was observed last, Revision its
	// revision.
	Obj      Obj
	Revision uint64
	entry    *entry[Obj]
	// Deleted: the object is gone from the table and has to leave the target.
	Deleted bool
	// Again: the key waited; Obj may be older than the table by now, so that
	// the current version has to be looked up.
	Again bool
	// Mark is that of the key's last outcome; 0 if it has had none.
	Mark  uint8
	lane  Lane
	cause Cause
	// probe is the opening of the breaker for everything that the item passed; 0 if it
	// was not open.
	probe uint32
}

// Waited reports whether the key has an entry. An item that is done and whose key has
// none need not be settled, unless there is a breaker.
func (it *Item[Obj]) Waited() bool { return it.entry != nil }

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

// Cause returns why the item is run, if not because its turn or its time has come.
func (it *Item[Obj]) Cause() Cause {
	if it.probe > 0 {
		return Probing
	}
	return it.cause
}

// From returns the state that the item's key was in before the round; Ready for a change.
func (it *Item[Obj]) From() State {
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

// round is the state between Begin and End.
type round[Obj any] struct {
	now  time.Duration
	size int
	// reserved is how much of the round is for keys whose time has come.
	reserved int
	// changes are the items observed in this round, in the order in which they were.
	changes []Item[Obj]
	// backlog is how many of the changes are in that lane: if any are, the changes are
	// of two cursors, and the lanes are to be kept.
	backlog int
	items   []Item[Obj]
	due     []*entry[Obj]
}

// Begin starts a round of at most size items at the given time; size is no more than
// the size of rounds.
func (c *Core[Obj]) Begin(now time.Duration, size int) {
	c.rounds++
	c.round.now = now
	c.round.size = min(size, c.roundSize)
	c.age(now)
	c.beginProbes(now)
	c.round.reserved = c.due.CountUpTo(int64(now), c.guaranteed())
}

// guaranteed returns how many items of the round are for keys whose time has come.
func (c *Core[Obj]) guaranteed() int {
	first := (share - c.turn%share) % share
	return max(0, (c.round.size-first+share-1)/share)
}

// Room returns how many more changes may be observed in the round.
func (c *Core[Obj]) Room() int {
	ahead := c.readyKeys() - c.crowd + len(c.round.changes)
	return max(0, c.roundSize-c.round.reserved-ahead)
}

// RoomFor is Room when there is a backlog to be observed as well as fresh changes: half of
// a round of each is taken in, and of what is fresh also while a whole round of the backlog
// is there already. What is fresh is observed first: the backlog may have the rest of this
// round.
func (c *Core[Obj]) RoomFor(backlog bool) int {
	old := c.lanes[Backlog].size + c.round.backlog
	fresh := c.readyKeys() + len(c.round.changes) - old
	half := (c.roundSize + 1) / 2
	if !backlog {
		return max(0, half-fresh)
	}
	return max(0, min(max(half, c.round.size-fresh)-old, c.Room()))
}

// Observe takes in a change: obj is wanted, or, if deleted, no longer wanted. No key
// comes twice in a round, and the changes of a lane come in revision order.
func (c *Core[Obj]) Observe(obj Obj, revision uint64, deleted bool, lane Lane) {
	c.observed = max(c.observed, revision)
	it := Item[Obj]{Obj: obj, Revision: revision, Deleted: deleted, lane: lane}
	it.entry = c.find(obj)
	if it.entry != nil {
		if it.entry.state == InFlight {
			c.note(it.entry, note[Obj]{item: it})
			return
		}
		c.supersede(it.entry, &it)
		it.Mark = it.entry.mark
		if it.entry.state == Held {
			return
		}
	}
	if lane == Backlog {
		c.round.backlog++
	}
	c.round.changes = append(c.round.changes, it)
}

// supersede makes an entry owe the given change in place of what it owed.
func (c *Core[Obj]) supersede(e *entry[Obj], it *Item[Obj]) {
	c.leave(e)
	c.vacate(e)
	c.pay(e)
	c.unprobe(c.round.now, e, void)
	c.change(e, it)
	if earliest := after(e.lastAttempt, c.backoff.Min); e.failures > 0 && earliest > c.round.now {
		c.wait(e, Held, earliest)
		c.owe(e)
		return
	}
	c.move(e, Planned)
}

// change sets what an entry is of.
func (c *Core[Obj]) change(e *entry[Obj], it *Item[Obj]) {
	e.obj, e.revision, e.since, e.deleted, e.lane = it.Obj, it.Revision, it.Revision, it.Deleted, it.lane
	e.tries, e.tried, e.seen, e.dueAt, e.cause = 0, false, c.rounds, c.round.now, OwnTime
	e.setWanted(c.round.now)
	c.setBlocked(e, false)
	if it.Deleted {
		// A deletion does not inherit the wait that its object had earned.
		e.failures, e.requeues = 0, 0
	}
}

// ObserveSettled takes in a change that asks for nothing: the object's status says
// that it is reconciled, failed or unset. It need be called only while Awaits: a key
// whose change was awaited and turns out to be this goes back to its retry.
func (c *Core[Obj]) ObserveSettled(obj Obj, revision uint64) {
	c.observed = max(c.observed, revision)
	e := c.find(obj)
	switch {
	case e == nil:
	case e.state == InFlight:
		c.note(e, note[Obj]{item: Item[Obj]{Obj: obj, Revision: revision}, settled: true})
	case e.state == Awaited:
		c.settled(e, obj, revision)
	}
}

// settled makes an entry whose change was awaited go on with what turned out to ask for
// nothing.
func (c *Core[Obj]) settled(e *entry[Obj], obj Obj, revision uint64) {
	if e.deleted {
		// The object is back, and asks for nothing: its deletion is void.
		c.setFailure(e, nil)
		c.forget(e)
		return
	}
	e.obj, e.revision, e.fixed = obj, revision, false
	c.wait(e, Retry, after(e.lastAttempt, c.backoff.Delay(int(e.failures))))
}

// Plan returns the round's items. If everything fits, changes come in the order in which
// they were observed; otherwise each lane has its places. Keys whose time has come come
// in the order in which they were due, so that a round that is cut short does not pass over
// the same ones every time, and take every fourth place while there is anything else.
// The slice is valid until End.
func (c *Core[Obj]) Plan() []Item[Obj] {
	if c.simple() {
		c.planChanges()
	} else {
		c.planLanes()
	}
	c.launchProbes(c.round.items)
	return c.round.items
}

// simple reports whether all that was observed is to be run in the order in which it
// was: this costs no entries.
func (c *Core[Obj]) simple() bool {
	return c.readyKeys() == 0 && c.paused == nil && !c.grouping && c.round.backlog == 0 &&
		len(c.round.changes)+c.round.reserved <= c.round.size
}

func (c *Core[Obj]) planChanges() {
	changes := c.round.changes
	due := c.takeDue(c.round.size - len(changes))
	if len(due) == 0 {
		// The plan takes over the slice of the changes, and End gives it back.
		c.round.items, c.round.changes = changes, c.round.items
		return
	}
	for place := c.turn; len(due)+len(changes) > 0; place++ {
		if len(due) > 0 && (place%share == 0 || len(changes) == 0) {
			c.round.items = append(c.round.items, c.item(due[0]))
			due = due[1:]
		} else {
			c.round.items = append(c.round.items, changes[0])
			changes = changes[1:]
		}
	}
}

func (c *Core[Obj]) planLanes() {
	for i := range c.round.changes {
		it := &c.round.changes[i]
		if it.entry == nil {
			it.entry = c.enter(it)
		}
		c.ready(it.entry)
	}
	due := c.takeDue(max(c.guaranteed(), c.round.size-c.readyKeys()))
	for place := c.turn; len(c.round.items) < c.round.size; {
		// More may be ready than when the due were taken: a group may have moved on.
		full := len(c.round.items)+len(due) == c.round.size
		if len(due) > 0 && (place%share == 0 || full || c.readyKeys() == 0) {
			c.round.items = append(c.round.items, c.item(due[0]))
			due = due[1:]
			place++
			continue
		}
		e := c.nextReady(place)
		if e == nil {
			return
		}
		e.from = Ready
		c.move(e, Planned)
		if c.admit(e) {
			c.round.items = append(c.round.items, c.item(e))
			place++
		}
	}
}

// takeDue takes up to n due entries out of the heap, in the order in which they were due.
func (c *Core[Obj]) takeDue(n int) []*entry[Obj] {
	for len(c.round.due) < n {
		e, at, ok := c.due.Min()
		if !ok || time.Duration(at) > c.round.now {
			break
		}
		c.leave(e)
		e.from = e.state
		c.move(e, Planned)
		if c.admit(e) {
			c.round.due = append(c.round.due, e)
		}
	}
	slices.SortFunc(c.round.due, func(a, b *entry[Obj]) int {
		return cmp.Or(cmp.Compare(a.dueAt, b.dueAt), byRevision(a, b))
	})
	return c.round.due
}

// item returns the item of an entry that was admitted.
func (c *Core[Obj]) item(e *entry[Obj]) Item[Obj] {
	return Item[Obj]{
		Obj: e.obj, Revision: e.revision, Deleted: e.deleted, Again: e.from != Ready || e.seen != c.rounds,
		Mark: e.mark, entry: e, lane: e.lane, cause: e.cause,
	}
}

// End closes the round. ran is the number of items whose operation was run or launched.
func (c *Core[Obj]) End(ran int) {
	c.turn = (c.turn + ran) % len(places)
	c.round.changes = reuse(c.round.changes)
	c.round.items = reuse(c.round.items)
	c.round.due = reuse(c.round.due)
	c.round.backlog = 0
}

// reuse empties a slice, so that it pins nothing, and keeps its memory.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}
