// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package core decides which objects are due, which wait, which go into a round, and what the
// outcome of an operation means for its key.
//
// A Core is plain data. It has no goroutine, lock, logger or clock: time is an argument. The loop's
// goroutine owns it and makes every call. The same calls with the same seed give the same operations.
//
// The core never runs an operation and never reads the table. Of an object it uses the key, the
// revision, and whether the object was deleted. It stores one value of type Obj for each waiting
// key and passes it only to the functions of [Config] and of [Core.SetPaused]. Only keys that wait
// or are worked on have an entry: a reconciled object costs nothing.
//
// One round is this sequence of calls:
//
//	Begin(now, size, entries)
//	Next                 makes the next operation, as often as it returns true
//	Renew                if the row of the operation has a later version in the table
//	Settle               once for each operation, or Recall if it was not run
//
// So nothing is planned that does not run. Next takes changes from a [Source] one at a time, when one can run,
// and gives due keys and each lane their share. An operation may run on a worker, beside the rounds: then it is
// settled in a later round, or between two rounds. Until it is settled, Next makes no other operation of its
// key: a change waits in the entry.
//
// An entry is in exactly one [State]:
//
//   - Held, Retry and Requeue end at a time, and so does Blocked if the key has a recheck time. These
//     entries are in a heap, and are due when their time has come.
//   - Ready entries are in the queue of their [Lane], Queued entries in that of their group.
//   - Paused, InFlight, Unseen, Terminal and other Blocked entries are in no queue. A later call moves
//     them on: SetPaused, Settle, Observe, RetryNow or Release.
//
// An entry has the newest version of its key that was observed. If that is newer than the one that an
// operation runs, the entry has both until the operation is settled: the outcome decides which counts.
//
// A call sets facts of an entry, such as its version, its state and whether it was tried. All else is
// derived: put and take in entry.go move the entry between the queues and the heap of due keys, and
// reindex.go has the rules for the other indexes, the counters and the records.
//
// So a round has six kinds of work: the due keys and the five lanes. Each has a share of the operations, so that
// none waits for all of another.
//
// The core tracks two revisions for callers that wait. A change is unreconciled until it has been
// applied, see [Core.LowWatermark]. It is untried until an operation has been attempted for it, see
// [Core.Attempted].
//
// The files in testdata are transcripts: each shows one behaviour step by step. Begin with
// 01_retry.txt.
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
	// any key has an entry.
	KeyOf func(Obj) []byte
	// GroupOf returns the group of an object; at most one object of a group is worked on at a time.
	// An empty group means none. If GroupOf is nil there are no groups.
	GroupOf func(Obj) string
	// SamePending reports whether a newer version of an object asks for the same operation as an
	// older one: then other writers changed the rest of the row. nil means never.
	SamePending func(older, newer Obj) bool
	// Limits can be changed later with SetLimits.
	Limits
	// Seed is the seed of the jitter.
	Seed uint64
	// Breaker configures the breaker; nil means none.
	Breaker *BreakerConfig
	// Records: a ledger takes records, see [Core.TakeRecords].
	Records bool
}

// Limits are the settings of a Core that can be changed between two rounds.
type Limits struct {
	// MinBackoff and MaxBackoff bound the backoff after a failure.
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction, from 0 to 1, by which a backoff may be shortened at random.
	Jitter float64
	// RoundSize bounds the operations of a round; at least 1.
	RoundSize int
}

// Core is the planning state of one reconciler. It is not safe for concurrent use.
type Core[Obj any] struct {
	keyOf       func(Obj) []byte
	groupOf     func(Obj) string
	samePending func(older, newer Obj) bool
	backoff     backoff.Exponential
	roundSize   int

	// entries has every observed key that is not reconciled, or that asked for another run. peak is
	// the largest size since the map was made: Go maps do not shrink.
	entries map[string]*entry[Obj]
	peak    int
	// gone are the entries that were removed since the last round began, free those whose memory may be
	// used again.
	gone, free []*entry[Obj]

	// due orders the entries that wait for a time by that time.
	due keyheap.Heap[*entry[Obj]]
	// lanes has the ready entries, by lane.
	lanes [NumLanes]queue[Obj]
	// unreconciled orders the entries that are not reconciled by the revision since which they are
	// not. untried orders the entries whose change has not been attempted in the same way.
	// newestSince is the highest revision that was ever in unreconciled.
	unreconciled keyheap.Heap[unreconciledEntry[Obj]]
	newestSince  uint64
	// The untried entries without a record are in the first heap, those with one in the second.
	untried [untriedHeaps]keyheap.Heap[untriedEntry[Obj]]
	// records: a ledger takes records. touched are the entries whose record may have changed.
	records bool
	touched []*entry[Obj]
	// groups has the groups that an entry holds, by name. grouping reports whether groups are
	// respected.
	groups   map[string]*group[Obj]
	grouping bool
	breaker  breaker[Obj]
	// paused reports whether an object must not be worked on; nil if no object is paused.
	paused func(Obj) bool

	// observed is the highest observed revision.
	observed uint64
	round    round
	// rounds counts the rounds. An entry stores the number of the round that observed it.
	rounds uint32
	// turn is the place of the next operation: the number of operations that ran, modulo the number of
	// places. Each place belongs to a lane. sourcesTurn: the last key that was taken for a lane was ready.
	turn        int
	sourcesTurn [NumLanes]bool

	// counts has the number of entries by state, results by the result of the last attempt, of which
	// wentWell is not used. deletions counts the entries whose object was deleted, refreshesInFlight
	// those of the lane Refresh that are in flight. version is as for FailureVersion.
	counts                       [NumStates]int
	results                      [numResults]int
	deletions, refreshesInFlight int
	version                      uint64
}

// New returns a Core without entries.
func New[Obj any](cfg Config[Obj]) *Core[Obj] {
	c := &Core[Obj]{
		keyOf:       cfg.KeyOf,
		groupOf:     cfg.GroupOf,
		samePending: cfg.SamePending,
		backoff:     backoff.Exponential{Rand: rand.New(rand.NewPCG(cfg.Seed, 0))},
		entries:     map[string]*entry[Obj]{},
		groups:      map[string]*group[Obj]{},
		breaker:     breaker[Obj]{BreakerConfig: cfg.Breaker, failed: map[string]struct{}{}},
		records:     cfg.Records,
	}
	c.SetLimits(cfg.Limits)
	return c
}

// SetLimits changes the limits. An entry that already waits keeps its time.
func (c *Core[Obj]) SetLimits(l Limits) {
	c.backoff.Min, c.backoff.Max, c.backoff.Jitter = l.MinBackoff, l.MaxBackoff, l.Jitter
	c.roundSize = l.RoundSize
}

// Tracks reports whether any key has an entry. While none has, the core needs no keys of objects.
func (c *Core[Obj]) Tracks() bool { return len(c.entries) > 0 }

// TracksKeyOf reports whether the key of obj has an entry.
func (c *Core[Obj]) TracksKeyOf(obj Obj) bool { return c.find(obj) != nil }

// NeedsSettled reports whether the caller has to call ObserveSettled for rows that have a status
// other than Pending and Refreshing.
func (c *Core[Obj]) NeedsSettled() bool {
	return c.counts[Unseen]+c.counts[InFlight]+c.counts[Terminal]+c.deletions > 0
}

// NumFailing returns the number of keys whose last attempt failed.
func (c *Core[Obj]) NumFailing() int { return c.results[hasFailed] }

// NumBlocked returns the number of keys whose last attempt was blocked, including those that are
// being attempted again.
func (c *Core[Obj]) NumBlocked() int { return c.results[wasBlocked] }

// Count returns the number of keys in a state.
func (c *Core[Obj]) Count(s State) int { return c.counts[s] }

// FailureVersion returns a number that changes whenever a key begins or ceases to fail or fails
// with another text, and whenever the breaker opens or closes.
func (c *Core[Obj]) FailureVersion() uint64 { return c.version }

// NextDue returns when the next key is due or the next probes are due; 0 if a key is ready, false
// if no key waits for a time.
func (c *Core[Obj]) NextDue() (time.Duration, bool) {
	if c.counts[Ready] > 0 {
		return 0, true
	}
	_, at, ok := c.due.Min()
	b := &c.breaker
	if b.open && b.probesRunning == 0 && b.backingOff.size > 0 && (!ok || b.probeAt < time.Duration(at)) {
		return b.probeAt, true
	}
	return time.Duration(at), ok
}
