// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package core decides: which objects are due, which wait, which go into this
// round, and what the outcome of an operation means for its key.
//
// It is plain data: no goroutine, no lock, no logger, and time is an argument.
// The same calls with the same seed give the same plans. It knows of an object
// only its key, its revision and whether it was deleted; one value of type Obj is
// kept per waiting key as an opaque payload. Objects that are reconciled cost
// nothing here: only those that wait or are worked on have an entry.
//
// One round is this sequence of calls:
//
//	Begin(now, size, maxFresh)  due work gets its guaranteed share
//	Observe(obj, ...)      for each change, unless the lane of that is Full
//	Plan()                 the round's items, at most size
//	Renew                  for an item of which the table has a later version
//	Settle, Return or Launch, once for each item
//	End(ran)
//
// An item that was launched is settled, or recalled, in any later round, or between two.
//
// Work comes from six sources, and each bounds itself: what is due, in a heap; what the
// two cursors read, the deletions and refreshes among it, and what was resumed or swept,
// each in a lane of its own (see [Lane]).
package core

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/keyheap"
)

// Config is what a Core is made from. The values are taken as valid; checking
// them is the business of whoever offers them to users.
type Config[Obj any] struct {
	// KeyOf returns the primary key of an object. It is called only for objects
	// that wait, or while anything waits.
	KeyOf func(Obj) []byte
	// GroupOf returns the group of an object, of which one at a time is worked on;
	// none for the empty group. nil means that there are no groups.
	GroupOf func(Obj) string
	// SamePending reports whether a version of an object asks for the same as an older one, so
	// that only others can have written what differs. nil: never.
	SamePending func(older, newer Obj) bool
	// Limits may be changed later.
	Limits
	// Seed makes the jitter repeatable.
	Seed uint64
	// Breaker is nil if nothing is held back when the target is down.
	Breaker *BreakerConfig
}

// Limits are the settings of a Core that can be changed between two rounds.
type Limits struct {
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction by which a wait may be shortened at random.
	Jitter float64
	// RoundSize is the largest number of items in a plan, and of a lane that is observed
	// ahead of it; at least 1.
	RoundSize int
}

// Core is the state of one reconciler. Not safe for concurrent use.
type Core[Obj any] struct {
	keyOf       func(Obj) []byte
	groupOf     func(Obj) string
	samePending func(older, newer Obj) bool
	backoff     backoff.Exponential
	roundSize   int

	// entries holds every key that is not reconciled or wants to be run again,
	// as far as it was observed. peak is the largest size since the map was
	// made: Go maps do not shrink.
	entries map[string]*entry[Obj]
	peak    int

	// due orders the entries that wait for a clock by when they are due.
	due keyheap.Heap[*entry[Obj]]
	// lanes hold the entries that are ready to be run.
	lanes [NumLanes]queue[Obj]
	// unreconciled orders the entries that are not reconciled by the revision since
	// which they are not, untried those of which the change has not been attempted.
	// newestSince is the highest revision that was ever in unreconciled.
	unreconciled keyheap.Heap[unreconciledEntry[Obj]]
	newestSince  uint64
	untried      keyheap.Heap[untriedEntry[Obj]]
	// later are the changes of keys that came while an operation on the key ran.
	later map[*entry[Obj]]laterChange[Obj]
	// groups are those that a key has; grouping says whether they are heeded.
	groups   map[string]*group[Obj]
	grouping bool
	// breakers are by class; the one of the empty class is for all errors. Those that are
	// open are in the order of their classes.
	breakerConfig *BreakerConfig
	breakers      map[string]*breaker[Obj]
	open          []*breaker[Obj]
	openings      uint64
	openVersion   uint64
	// probes orders the breakers for classes whose probes wait for their time by when that
	// is; probesBegun is memory for those whose time has come.
	probes      keyheap.Heap[*breaker[Obj]]
	probesBegun []*breaker[Obj]
	// paused reports whether an object is not to be worked on; nil if none is.
	paused func(Obj) bool

	// observed is the revision of the last change that was observed.
	observed uint64
	round    round[Obj]
	// rounds counts the rounds, for entries to know whether they were observed in
	// this one.
	rounds uint32
	// turn counts the items run so far, modulo the number of places: each place
	// belongs to a lane.
	turn int

	counts [NumStates]int
	// deletions counts the entries that are to leave the target.
	deletions        int
	failing, blocked int
	// refreshesInFlight counts the entries of the lane of refreshes that are in flight. stuck
	// counts the entries with a stuck operation, stuckRefreshes those of that lane.
	refreshesInFlight, stuck, stuckRefreshes int
	version                                  uint64
}

// State is where a key with an entry is. A key without one is reconciled, or its
// change has not been observed yet.
type State uint8

const (
	// Planned: in this round.
	Planned State = iota
	// Ready: to be run when a round has room for it.
	Ready
	// InFlight: an operation on it was launched.
	InFlight
	// Queued: waits until another key of its group has been worked on.
	Queued
	// Paused: not to be worked on until somebody says so.
	Paused
	// Tripped: waits behind an open breaker of the class of its last error.
	Tripped
	// Unseen: the object changed while it was worked on, or before its retry;
	// the change is still to be observed.
	Unseen
	// Held: changed, and waits until the minimum backoff since the last attempt
	// has passed.
	Held
	// Retry: failed, waits for its backoff.
	Retry
	// Requeue: reconciled, and asked to be run again later.
	Requeue
	// Blocked: waits to be released.
	Blocked
	// Terminal: failed for good, until it changes.
	Terminal
	// NumStates is how many states there are.
	NumStates
)

var stateNames = [NumStates]string{
	"planned", "ready", "in flight", "queued", "paused", "tripped",
	"unseen", "held", "retry", "requeue", "blocked", "terminal",
}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }

// entry is a key that waits or is worked on. The fields are ordered for size: there may
// be millions.
type entry[Obj any] struct {
	key string
	obj Obj

	// revision is that of the version of the object in obj; since is that of
	// the change that is not reconciled yet, or, for a key that had been
	// reconciled, the first after what had been observed when it began to fail; 0 if
	// it is reconciled.
	revision, since uint64
	// prev and next are its neighbours in the queue that it is in.
	prev, next *entry[Obj]

	// dueAt is the place in the due heap while waiting for a clock, and before that
	// when the change was observed; lastAttempt is when the last operation on the key
	// ended.
	dueAt, lastAttempt time.Duration
	// wanted is when the change that it owes was written; 0 if only the object tells.
	wanted time.Duration
	// failure is the text of the last attempt's error, nil if it did not fail.
	failure *string
	// breaker is that of the class of the last attempt's error; nil if it has none.
	breaker *breaker[Obj]
	// group is the one that the entry has or waits for; nil if none.
	group *group[Obj]

	// The positions in the heaps, -1 if in none.
	pos, unreconciledPos, untriedPos int32
	// failures counts those in a row, tries those since the object changed.
	failures, tries int32
	// seen is the round in which the change was observed.
	seen uint32
	// probedOpening is the opening of the breaker of its class for which it probes; 0 if it does
	// not.
	probedOpening uint32
	state         State
	// from is the state that the entry was in before the round took it.
	from    State
	lane    Lane
	deleted bool
	// mark is the caller's note from the last outcome.
	mark uint8
	// requeues counts the outcomes in a row that were done with a backoff, up to 255: any
	// backoff is at its longest by then.
	requeues uint8
	// tried: the change that is owed has been attempted; blocked: the last attempt was.
	tried, blocked bool
	// stuck: its operation is.
	stuck bool
	// fixed: the time of its retry is no backoff: it was asked for, or a breaker closed.
	fixed bool
	// cause is why it is going to be run.
	cause Cause
}

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

// New returns a Core with no waiting key.
func New[Obj any](cfg Config[Obj]) *Core[Obj] {
	c := &Core[Obj]{
		keyOf:         cfg.KeyOf,
		groupOf:       cfg.GroupOf,
		samePending:   cfg.SamePending,
		backoff:       backoff.Exponential{Rand: rand.New(rand.NewPCG(cfg.Seed, 0))},
		entries:       map[string]*entry[Obj]{},
		later:         map[*entry[Obj]]laterChange[Obj]{},
		groups:        map[string]*group[Obj]{},
		breakerConfig: cfg.Breaker,
		breakers:      map[string]*breaker[Obj]{},
	}
	c.SetLimits(cfg.Limits)
	return c
}

// SetLimits changes the limits: waits from now on are by the new ones.
func (c *Core[Obj]) SetLimits(l Limits) {
	c.backoff.Min, c.backoff.Max, c.backoff.Jitter = l.MinBackoff, l.MaxBackoff, l.Jitter
	c.roundSize = l.RoundSize
}

// Tracks reports whether any key waits. While it is false, nobody needs to know
// an object's key.
func (c *Core[Obj]) Tracks() bool { return len(c.entries) > 0 }

// TracksKeyOf reports whether the key of obj waits.
func (c *Core[Obj]) TracksKeyOf(obj Obj) bool { return c.find(obj) != nil }

// NeedsSettled reports whether ObserveSettled need be told of rows with a status.
func (c *Core[Obj]) NeedsSettled() bool {
	return c.counts[Unseen]+c.counts[InFlight]+c.counts[Terminal]+c.deletions > 0
}

// NumFailing returns the number of keys whose last attempt failed.
func (c *Core[Obj]) NumFailing() int { return c.failing }

// NumBlocked returns the number of keys whose last attempt was blocked, also while they are
// attempted again.
func (c *Core[Obj]) NumBlocked() int { return c.blocked }

// Count returns the number of keys in a state.
func (c *Core[Obj]) Count(s State) int { return c.counts[s] }

// FailureVersion changes whenever the set of failing keys or one of their error
// texts does.
func (c *Core[Obj]) FailureVersion() uint64 { return c.version }

// NextDue returns when the next key is due, or is to be a probe of its breaker; false if
// none waits for a clock.
func (c *Core[Obj]) NextDue() (time.Duration, bool) {
	if c.readyKeys() > 0 {
		return 0, true
	}
	_, at, ok := c.due.Min()
	if probes, has := c.probesDue(); has && (!ok || probes < time.Duration(at)) {
		return probes, true
	}
	return time.Duration(at), ok
}

func (c *Core[Obj]) find(obj Obj) *entry[Obj] {
	if len(c.entries) == 0 {
		return nil
	}
	return c.entries[string(c.keyOf(obj))]
}

// addEntry adds an entry for the change of an item whose key has none. It is in no queue.
func (c *Core[Obj]) addEntry(it *Item[Obj]) *entry[Obj] {
	e := &entry[Obj]{
		key: string(c.keyOf(it.Obj)), obj: it.Obj,
		revision: it.Revision, since: it.since, deleted: it.Deleted, lane: it.lane,
		dueAt: c.round.now, pos: -1, unreconciledPos: -1, untriedPos: -1, seen: c.rounds, state: Planned,
	}
	e.resetWanted(c.round.now)
	if e.deleted {
		c.deletions++
	}
	c.entries[e.key] = e
	c.peak = max(c.peak, len(c.entries))
	c.counts[Planned]++
	return e
}

// setDeleted notes whether an entry is to leave the target.
func (c *Core[Obj]) setDeleted(e *entry[Obj], deleted bool) {
	if e.deleted {
		c.deletions--
	}
	if deleted {
		c.deletions++
	}
	e.deleted = deleted
}

// resetWanted forgets when the change was written that the entry owed before: of one that is
// new the object tells, of a deletion it is when that was observed.
func (e *entry[Obj]) resetWanted(now time.Duration) {
	e.wanted = 0
	if e.deleted {
		e.wanted = max(1, now)
	}
}

// minPeak is the size below which the map of entries is never made anew.
const minPeak = 1024

// forget drops an entry that is in no queue and does not fail: its key is reconciled.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.markReconciled(e)
	c.setBreaker(e, nil)
	c.setBlocked(e, false)
	c.setDeleted(e, false)
	c.counts[e.state]--
	delete(c.entries, e.key)
	if c.peak > minPeak && len(c.entries) < c.peak/4 {
		entries := make(map[string]*entry[Obj], len(c.entries))
		for k, e := range c.entries {
			entries[k] = e
		}
		c.entries, c.peak = entries, len(entries)
	}
}

// move puts an entry that is in no queue into a state.
func (c *Core[Obj]) move(e *entry[Obj], s State) {
	c.counts[e.state]--
	c.counts[s]++
	e.state = s
}

// wait puts an entry that is in no queue into a state that ends at a time.
func (c *Core[Obj]) wait(e *entry[Obj], s State, until time.Duration) {
	c.move(e, s)
	e.dueAt = until
	c.due.Push(e, int64(until))
	if e.backsOff() {
		e.breaker.backingOff.pushBack(e)
	}
}

// backsOff reports whether an entry waits for its backoff, and not if a breaker closes.
func (e *entry[Obj]) backsOff() bool { return e.state == Retry && e.breaker != nil && !e.fixed }

// leaveQueue takes an entry out of the queue that its state says it is in.
func (c *Core[Obj]) leaveQueue(e *entry[Obj]) {
	switch e.state {
	case Ready:
		c.removeReady(e)
	case Queued:
		e.group.waiting.remove(e)
	case Tripped:
		e.breaker.held.remove(e)
		c.scheduleProbes(e.breaker)
	default:
		if e.backsOff() {
			e.breaker.backingOff.remove(e)
		}
		if e.pos >= 0 {
			c.due.Remove(e)
		}
	}
}

// after returns the time d after t, or the end of time if that is before: users write
// "never" as the longest delay there is.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// byRevision orders entries; what was adopted may share its revision.
func byRevision[Obj any](a, b *entry[Obj]) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.key, b.key))
}

func (c *Core[Obj]) setBlocked(e *entry[Obj], blocked bool) {
	if e.blocked {
		c.blocked--
	}
	if blocked {
		c.blocked++
	}
	e.blocked = blocked
}

func (c *Core[Obj]) setFailure(e *entry[Obj], text *string) {
	switch {
	case e.failure == nil && text == nil:
		return
	case e.failure == nil:
		c.failing++
	case text == nil:
		c.failing--
	case *e.failure == *text:
		e.failure = text
		return
	}
	e.failure = text
	c.version++
}
