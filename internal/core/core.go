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
