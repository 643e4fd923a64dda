// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package core decides which objects are due, which wait, which go into a round, and what the
// outcome of an operation means for its key.
//
// It is plain data: it has no goroutine, no lock and no logger, and time is an argument. The same
// calls with the same seed give the same plans. Of an object it knows the key, the revision and
// whether it was deleted; it keeps one value of type Obj for each waiting key, and does not look
// into it. Only objects that wait or are worked on have an entry: reconciled objects cost nothing.
//
// One round is this sequence of calls:
//
//	Begin(now, size, maxFresh)  due keys get their guaranteed share
//	Observe(obj, ...)           for each change, unless its lane is Full
//	Plan()                      the round's items, at most size
//	Renew                       for an item of which the table has a later version
//	Settle, PutBack or Launch   once for each item
//	End(ran)
//
// A launched item is settled or recalled in a later round, or between two rounds.
//
// Work comes from six sources, and each is bounded: due keys, in a heap, and five lanes (see
// [Lane]), for what the two cursors read, for deletions, for refreshes, and for what was resumed or
// found by a sweep.
package core

import (
	"math/rand/v2"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/keyheap"
)

// Config is the configuration of a Core. The caller has validated the values.
type Config[Obj any] struct {
	// KeyOf returns the primary key of an object. It is called only for objects that wait, or while
	// any key waits.
	KeyOf func(Obj) []byte
	// GroupOf returns the group of an object; one object of a group is worked on at a time. Objects
	// with an empty group have none. If it is nil there are no groups.
	GroupOf func(Obj) string
	// SamePending reports whether a newer version of an object asks for the same as an older one,
	// so that only other writers can have changed the rest. nil means never.
	SamePending func(older, newer Obj) bool
	// Limits may be changed later.
	Limits
	// Seed makes the jitter repeatable.
	Seed uint64
	// Breaker is nil if there are no breakers.
	Breaker *BreakerConfig
}

// Limits are the settings of a Core that can be changed between two rounds.
type Limits struct {
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction, from 0 to 1, by which a wait may be shortened at random.
	Jitter float64
	// RoundSize is the largest number of items in a plan, and of keys in a lane that is filled
	// ahead of it; at least 1.
	RoundSize int
}

// Core is the state of one reconciler. It is not safe for concurrent use.
type Core[Obj any] struct {
	keyOf       func(Obj) []byte
	groupOf     func(Obj) string
	samePending func(older, newer Obj) bool
	backoff     backoff.Exponential
	roundSize   int

	// entries has every observed key that is not reconciled or asked to be run again. peak is the
	// largest size since the map was made: Go maps do not shrink.
	entries map[string]*entry[Obj]
	peak    int

	// due orders the entries that wait for a clock by when they are due.
	due keyheap.Heap[*entry[Obj]]
	// lanes have the entries that are ready.
	lanes [NumLanes]queue[Obj]
	// unreconciled orders the entries that are not reconciled by the revision since
	// which they are not, untried those of which the change has not been attempted.
	// newestSince is the highest revision that was ever in unreconciled.
	unreconciled keyheap.Heap[unreconciledEntry[Obj]]
	newestSince  uint64
	untried      keyheap.Heap[untriedEntry[Obj]]
	// later has the changes of keys that were observed while an operation on the key ran.
	later map[*entry[Obj]]laterChange[Obj]
	// groups has the groups of which a member is worked on. grouping: groups are heeded.
	groups   map[string]*group[Obj]
	grouping bool
	// breakers is by class; the breaker of the empty class is for all errors. open has those that
	// are open, in the order of their classes.
	breakerConfig *BreakerConfig
	breakers      map[string]*breaker[Obj]
	open          []*breaker[Obj]
	openings      uint64
	openVersion   uint64
	// probes orders the breakers for classes whose probes wait by their time. probesBegun is
	// scratch memory for those whose time has come.
	probes      keyheap.Heap[*breaker[Obj]]
	probesBegun []*breaker[Obj]
	// paused reports whether an object must not be worked on; nil if none is paused.
	paused func(Obj) bool

	// observed is the highest revision that was observed.
	observed uint64
	round    round[Obj]
	// rounds counts the rounds: an entry keeps the number of the round that observed it.
	rounds uint32
	// turn counts the items that were run, modulo the number of places: each place belongs to a
	// lane.
	turn int

	counts [NumStates]int
	// deletions counts the entries whose object was deleted.
	deletions        int
	failing, blocked int
	// refreshesInFlight counts the entries of the lane Refresh that are in flight. stuck counts the
	// entries with a stuck operation, stuckRefreshes those of them in that lane.
	refreshesInFlight, stuck, stuckRefreshes int
	version                                  uint64
}

// New returns a Core without entries.
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

// SetLimits changes the limits. Waits that have begun keep their time.
func (c *Core[Obj]) SetLimits(l Limits) {
	c.backoff.Min, c.backoff.Max, c.backoff.Jitter = l.MinBackoff, l.MaxBackoff, l.Jitter
	c.roundSize = l.RoundSize
}

// Tracks reports whether any key has an entry. While none has, the keys of objects are not needed.
func (c *Core[Obj]) Tracks() bool { return len(c.entries) > 0 }

// TracksKeyOf reports whether the key of obj has an entry.
func (c *Core[Obj]) TracksKeyOf(obj Obj) bool { return c.find(obj) != nil }

// NeedsSettled reports whether ObserveSettled has to be called for rows that have a status.
func (c *Core[Obj]) NeedsSettled() bool {
	return c.counts[Unseen]+c.counts[InFlight]+c.counts[Terminal]+c.deletions > 0
}

// NumFailing returns the number of keys whose last attempt failed.
func (c *Core[Obj]) NumFailing() int { return c.failing }

// NumBlocked returns the number of keys whose last attempt was blocked, with those that are being
// attempted again.
func (c *Core[Obj]) NumBlocked() int { return c.blocked }

// Count returns the number of keys in a state.
func (c *Core[Obj]) Count(s State) int { return c.counts[s] }

// FailureVersion changes whenever a key begins or ceases to fail, or fails with another text.
func (c *Core[Obj]) FailureVersion() uint64 { return c.version }

// NextDue returns when the next key is due, or may probe for its breaker; false if no key waits for
// a time.
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
