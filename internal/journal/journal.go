// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/ring"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Journal keeps the latest rounds and operations. The loop locks it once a round, for a short time.
// So a reader, on any goroutine, never waits for an operation, which may be the one that it asks
// about.
type Journal[Obj any] struct {
	// name returns the text of an object's key.
	name func(Obj) string

	mu         sync.Mutex
	rounds     *ring.Ring[round]
	operations *ring.Ring[entry[Obj]]
	// failures has the latest failed operations, including those that the rings no longer have.
	failures failures[Obj]
}

// round is a round without its operations; first is the number of the first of them.
type round struct {
	inspect.Round
	first uint64
}

// New returns a journal with room for the given numbers of rounds and operations; each may be zero.
// name returns the text of an object's key. It is called by readers, without the lock.
func New[Obj any](rounds, operations int, name func(Obj) string) *Journal[Obj] {
	return &Journal[Obj]{
		name:       name,
		rounds:     ring.New[round](rounds),
		operations: ring.New[entry[Obj]](operations),
		failures:   failures[Obj]{most: operations},
	}
}

// Add adds a round and its operations. The operations in r are ignored. Operations that succeeded cost no
// memory beyond that of the journal.
func (j *Journal[Obj]) Add(r *inspect.Round, ops []core.Operation[Obj]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	slot := j.rounds.Next()
	if slot == nil {
		return
	}
	*slot = round{Round: *r, first: j.operations.Added()}
	slot.Operations = nil
	for i := range ops {
		slot := j.operations.Next()
		if slot == nil {
			return
		}
		*slot = entryOf(&ops[i])
		if ops[i].Outcome.HasFailed() {
			j.failures.add(placed[Obj]{*slot, j.operations.Added() - 1, r.Sequence, r.Started})
		}
	}
}

// Rounds returns the rounds in the journal, the oldest first.
func (j *Journal[Obj]) Rounds() []inspect.Round {
	rounds, objects := j.copyRounds()
	// name calls the user's functions: not under the lock.
	for i := range rounds {
		for k := range rounds[i].Operations {
			rounds[i].Operations[k].Key = j.name(objects[0])
			objects = objects[1:]
		}
	}
	return rounds
}

// copyRounds returns the rounds, and the objects of all their operations.
func (j *Journal[Obj]) copyRounds() (rounds []inspect.Round, objects []Obj) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, end := j.rounds.First(), j.rounds.Added()
	rounds = make([]inspect.Round, 0, end-first)
	for n := first; n < end; n++ {
		r, last := j.rounds.At(n), j.operations.Added()
		if n+1 < end {
			last = j.rounds.At(n + 1).first
		}
		for _, e := range j.entries(r.first, last) {
			r.Operations = append(r.Operations, e.operation())
			objects = append(objects, e.Object)
		}
		rounds = append(rounds, r.Round)
	}
	return rounds, objects
}

// entries returns the operations with a number from first to below end that the journal still has.
func (j *Journal[Obj]) entries(first, end uint64) (entries []entry[Obj]) {
	kept := j.failures.between(first, min(end, j.operations.First()))
	for i := range kept {
		entries = append(entries, kept[i].entry)
	}
	for n := max(first, j.operations.First()); n < end; n++ {
		entries = append(entries, j.operations.At(n))
	}
	return entries
}

// Events returns the operations in the journal, the oldest first: those on objects that match, or all
// if match is nil, of rounds that began at since or later. If limit is not zero, it returns the
// latest limit operations. complete reports whether the last of them is known to be the latest
// operation on these objects: the journal has lost none after it. It is false if no operation is
// returned. match is called under the lock.
func (j *Journal[Obj]) Events(match func(Obj) bool, since time.Time, limit int) (events []inspect.Event, complete bool) {
	var objects []Obj
	j.latestFirst(func(op *placed[Obj], old bool) bool {
		if op.started.Before(since) {
			return false
		}
		if match != nil && !match(op.Object) {
			return true
		}
		complete = complete || !old
		events = append(events, inspect.Event{Round: op.round, Started: op.started, Operation: op.operation()})
		objects = append(objects, op.Object)
		return limit == 0 || len(events) < limit
	})
	// name calls the user's functions: not under the lock.
	for i := range events {
		events[i].Key = j.name(objects[i])
	}
	slices.Reverse(events)
	return events, complete
}

// latestFirst calls yield with the operations in the journal, the latest first, until it returns
// false. old reports whether the journal has lost later operations than this one.
func (j *Journal[Obj]) latestFirst(yield func(op *placed[Obj], old bool) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end := j.operations.Added()
	for n := j.rounds.Added(); n > j.rounds.First(); n-- {
		r := j.rounds.At(n - 1)
		for ; end > max(r.first, j.operations.First()); end-- {
			if !yield(&placed[Obj]{j.operations.At(end - 1), end - 1, r.Sequence, r.Started}, false) {
				return
			}
		}
	}
	kept := j.failures.between(0, end)
	for i := len(kept) - 1; i >= 0; i-- {
		if !yield(&kept[i], true) {
			return
		}
	}
}
