// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package core decides: which objects are due, which wait, which go into this
// round, and what the outcome of an operation means for its key.
//
// It is plain data: no goroutine, no lock, no logger, and time is an argument.
// The same calls with the same seed give the same plans. It knows of an object
// only its key, its revision and whether it was deleted; one value of type Obj is
// kept per waiting key as an opaque payload. Objects that are reconciled cost
// nothing here: only those that wait have an entry.
//
// One round is this sequence of calls, and nothing else may come in between:
//
//	Begin(now)            due work gets its guaranteed share
//	Observe(obj, ...)     once for each change, at most Room() of them
//	Plan()                the round's items
//	Settle or Return      once for each item, in order
//	End(ran)
package core

import (
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
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction by which a wait may be shortened at random.
	Jitter float64
	// Seed makes the jitter repeatable.
	Seed uint64
	// RoundSize is the largest number of items in a plan; at least 1.
	RoundSize int
}

// Core is the state of one reconciler. Not safe for concurrent use.
type Core[Obj any] struct {
	keyOf     func(Obj) []byte
	backoff   backoff.Exponential
	roundSize int

	// entries holds every key that is not reconciled or wants to be run again,
	// as far as it was observed. peak is the largest size since the map was
	// made: Go maps do not shrink.
	entries map[string]*entry[Obj]
	peak    int

	// due orders the entries that wait for a clock by when they are due.
	due keyheap.Heap[*entry[Obj]]
	// ready holds the entries that a round had planned and did not get to; between
	// rounds, the oldest change first. While any of them stays behind, a round has
	// no room for changes, so that none is ever taken out of the middle.
	ready []*entry[Obj]
	// byRevision orders the entries that are not reconciled by revision.
	byRevision revisionList[Obj]
	// observed is the revision of the last change that was observed.
	observed uint64

	round round[Obj]
	// turn counts the items run so far, modulo share: the key of every fourth is
	// one whose time has come.
	turn int

	counts  [numStates]int
	failing int
	version uint64
}

// State is where a key with an entry is. A key without one is reconciled, or its
// change has not been observed yet.
type State uint8

const (
	// Planned: in this round.
	Planned State = iota
	// Ready: was planned, the round ended before its turn; first in the next.
	Ready
	// Awaited: the object changed while it was worked on, or before its retry;
	// the change is still to be observed.
	Awaited
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
	numStates
)

var stateNames = [numStates]string{
	"planned", "ready", "awaited", "held", "retry", "requeue", "blocked", "terminal",
}

// String returns the state's name in lower case.
func (s State) String() string { return stateNames[s] }

// entry is a key that waits. The fields are ordered for size: there may be
// millions.
type entry[Obj any] struct {
	key string
	obj Obj

	// revision is that of the version of the object in obj; since is that of
	// the change that is not reconciled yet, or, for a key that had been
	// reconciled, the first after what had been observed when it began to fail.
	revision, since uint64
	prev, next      *entry[Obj]

	// dueAt is the place in the due heap while waiting for a clock; lastAttempt
	// is when the last operation on the key ended.
	dueAt, lastAttempt time.Duration
	// failure is the text of the last attempt's error, nil if it did not fail.
	failure *string

	// pos is the position in the due heap, or the slot in round.due or
	// round.ready, by state; -1 if in none.
	pos      int32
	failures int32
	state    State
	// from is the state that the entry was in before the round took it.
	from    State
	deleted bool
	listed  bool
	// mark is the caller's note from the last outcome.
	mark uint8
}

func (e *entry[Obj]) HeapPos() int       { return int(e.pos) }
func (e *entry[Obj]) SetHeapPos(pos int) { e.pos = int32(pos) }

// New returns a Core with no waiting key.
func New[Obj any](cfg Config[Obj]) *Core[Obj] {
	return &Core[Obj]{
		keyOf: cfg.KeyOf,
		backoff: backoff.Exponential{
			Min:    cfg.MinBackoff,
			Max:    cfg.MaxBackoff,
			Jitter: cfg.Jitter,
			Rand:   rand.New(rand.NewPCG(cfg.Seed, 0)),
		},
		roundSize: cfg.RoundSize,
		entries:   map[string]*entry[Obj]{},
	}
}

// Tracks reports whether any key waits. While it is false, nobody needs to know
// an object's key.
func (c *Core[Obj]) Tracks() bool { return len(c.entries) > 0 }

// TracksKeyOf reports whether the key of obj waits.
func (c *Core[Obj]) TracksKeyOf(obj Obj) bool { return c.find(obj) != nil }

// Awaits reports whether the change of any key is still to be observed.
func (c *Core[Obj]) Awaits() bool { return c.counts[Awaited] > 0 }

// Failing returns the number of keys whose last attempt failed.
func (c *Core[Obj]) Failing() int { return c.failing }

// Count returns the number of keys in a state.
func (c *Core[Obj]) Count(s State) int { return c.counts[s] }

// FailureVersion changes whenever the set of failing keys or one of their error
// texts does.
func (c *Core[Obj]) FailureVersion() uint64 { return c.version }

// failuresSeen bounds the keys that Failures looks at: most may wait without failing.
const failuresSeen = 1000

// Failures calls yield with the error texts of failing keys, the longest unreconciled
// first, until yield returns false. It looks at a bounded number of keys, so that it may
// miss failures behind a crowd of keys that wait for something else.
func (c *Core[Obj]) Failures(yield func(text string) bool) {
	seen := 0
	for e := c.byRevision.head; e != nil && seen < failuresSeen; e = e.next {
		seen++
		if e.failure != nil && !yield(*e.failure) {
			return
		}
	}
}

// NextDue returns when the next key is due, or false if none waits for a clock.
func (c *Core[Obj]) NextDue() (time.Duration, bool) {
	if len(c.ready) > 0 {
		return 0, true
	}
	_, at, ok := c.due.Min()
	return time.Duration(at), ok
}

// LowWatermark returns the lowest revision that was observed and is not
// reconciled, or 0 if all that was observed is.
func (c *Core[Obj]) LowWatermark() uint64 {
	if c.byRevision.head == nil {
		return 0
	}
	return c.byRevision.head.since
}

// Attempted returns the revision up to which every object has been attempted at
// least once, given the revision up to which changes have been observed. A change
// held back for its key's minimum backoff counts as attempted: it shows in
// LowWatermark.
func (c *Core[Obj]) Attempted(observed uint64) uint64 {
	if len(c.ready) > 0 {
		return min(observed, c.ready[0].since-1)
	}
	return observed
}

func (c *Core[Obj]) find(obj Obj) *entry[Obj] {
	if len(c.entries) == 0 {
		return nil
	}
	return c.entries[string(c.keyOf(obj))]
}

// enter adds an entry for a key that has none. It is in no queue.
func (c *Core[Obj]) enter(obj Obj) *entry[Obj] {
	e := &entry[Obj]{key: string(c.keyOf(obj)), obj: obj, pos: -1, state: Planned}
	c.entries[e.key] = e
	c.peak = max(c.peak, len(c.entries))
	c.counts[Planned]++
	return e
}

// minPeak is the size below which the map of entries is never made anew.
const minPeak = 1024

// forget drops an entry that is in no queue and does not fail: its key is reconciled.
func (c *Core[Obj]) forget(e *entry[Obj]) {
	c.byRevision.remove(e)
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
}

// after returns the time d after t, or the end of time if that is before: users write
// "never" as the longest delay there is.
func after(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// leave takes an entry out of the queue that its state says it is in.
func (c *Core[Obj]) leave(e *entry[Obj]) {
	if e.pos < 0 {
		return
	}
	switch {
	case e.state != Planned:
		c.due.Remove(e)
		return
	case e.from == Ready:
		c.round.ready[e.pos] = nil
	default:
		c.round.due[e.pos] = nil
	}
	e.pos = -1
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
