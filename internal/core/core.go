// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package core decides which objects are due, which wait, which go into a round, and what the
// outcome of an operation means for its key.
//
// A Core is plain data. It has no goroutine, lock, logger or clock: time is an argument. The loop's
// goroutine owns it and makes every call. The same calls with the same seed give the same operations; but if more than
// 1,024 keys have an entry, [Core.Walk] visits them in no order.
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
// So nothing is planned: an operation is made when it may run. Next takes changes from a [Source] one at a time,
// when one can run,
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
// A Core has parts, and each owns its state:
//
//   - keySet has the entries by key, and their memory;
//   - queues has the entries where they wait, with the groups: take and put move an entry;
//   - [Index] has what follows from the facts of the entries: counts, progress, records;
//   - round has the time, the bounds of the round, and whose turn it is.
//
// A call sets facts of an entry (entry.go), such as its version and whether it was tried, and puts the entry into
// a state. All else is derived from the facts.
//
// A round has six kinds of work: the due keys and the five lanes. Each has a share of the operations, so that
// none waits for all of another.
//
// The core tracks two revisions for callers that wait. A change is unreconciled until it has been
// applied, see [Index.LowWatermark]. It is untried until an operation has been attempted for it, see
// [Index.Attempted].
package core

import (
	"math/rand/v2"
	"time"

	"github.com/statekeel/statekeel/internal/backoff"
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
	// older one: then other writers changed the rest of the row. If nothing tells, it may be true. nil means never.
	SamePending func(older, newer Obj) bool
	// Limits can be changed later with SetLimits.
	Limits
	// Seed is the seed of the jitter.
	Seed uint64
	// Records: a ledger takes records, see [Index.TakeRecords].
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
	// Index may be read between two rounds.
	Index  *Index[Obj]
	keys   keySet[Obj]
	queues queues[Obj]
	round  round

	same sameFunc[Obj]
	// paused is nil if no object is paused. pausing is the walk that follows when it is set.
	paused  pauses[Obj]
	pausing walk[Obj]
	// retrying is the walk that makes keys due, retried the number of these. When it has ended, the first of retries are
	// called, as many as answering says, and the walk for the others begins.
	retrying  walk[Obj]
	retried   int
	answering int
	retries   []func(n int)
	backoff   backoff.Exponential
	roundSize int
	// observed is the highest observed revision.
	observed uint64
}

// New returns a Core without entries.
func New[Obj any](cfg Config[Obj]) *Core[Obj] {
	x := &Index[Obj]{records: cfg.Records}
	c := &Core[Obj]{
		Index:   x,
		keys:    keySet[Obj]{of: cfg.KeyOf, entries: map[string]*entry[Obj]{}},
		queues:  queues[Obj]{index: x, groups: groupSet[Obj]{of: cfg.GroupOf, byName: map[string]*group[Obj]{}}},
		same:    cfg.SamePending,
		backoff: backoff.Exponential{Rand: rand.New(rand.NewPCG(cfg.Seed, 0))},
	}
	c.SetLimits(cfg.Limits)
	return c
}

// SetLimits changes the limits. An entry that already waits keeps its time.
func (c *Core[Obj]) SetLimits(l Limits) {
	c.backoff.Min, c.backoff.Max, c.backoff.Jitter = l.MinBackoff, l.MaxBackoff, l.Jitter
	c.roundSize = l.RoundSize
}

// SetGrouping sets whether groups are respected; they never are without a GroupOf. They need not be
// while operations run one at a time.
func (c *Core[Obj]) SetGrouping(on bool) { c.queues.groups.on = on && c.queues.groups.of != nil }
