// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The journal keeps the latest MaxRounds rounds, and of their operations the latest MaxOperations.
const (
	MaxRounds     = 128
	MaxOperations = 1024
)

// Journal keeps the latest rounds and operations. The loop locks it once a round, for a short time.
// So a reader, on any goroutine, never waits for an operation, which may be the one that it asks
// about.
type Journal[Obj any] struct {
	// name returns the text of an object's key.
	name func(Obj) string

	mu sync.Mutex
	// rounds and operations are rings: number n is at n modulo the length. added and ran are the numbers of the
	// next round and operation.
	rounds     [MaxRounds]round
	operations [MaxOperations]entry[Obj]
	added, ran uint64
}

// round is a round without its operations; first is the number of the first of them.
type round struct {
	inspect.Round
	first uint64
}

// New returns an empty journal. name returns the text of an object's key. It is called by readers, without the
// lock.
func New[Obj any](name func(Obj) string) *Journal[Obj] { return &Journal[Obj]{name: name} }

// Add adds a round and its operations. The Sequence of the round in the journal is one more than that of the round before;
// Sequence and operations of r are ignored. It allocates nothing.
func (j *Journal[Obj]) Add(r *inspect.Round, ops []core.Operation[Obj]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	slot := &j.rounds[j.added%MaxRounds]
	j.added++
	*slot = round{Round: *r, first: j.ran}
	slot.Operations, slot.Sequence = nil, j.added
	for i := range ops {
		j.operations[j.ran%MaxOperations] = entryOf(&ops[i])
		j.ran++
	}
}

// Rounds returns the rounds in the journal, the oldest first.
func (j *Journal[Obj]) Rounds() []inspect.Round {
	rounds := j.copyRounds()
	if len(rounds) == 0 {
		return nil
	}
	for _, o := range j.Operations(nil, time.Time{}, 0) {
		// The journal may have changed since the rounds were copied.
		if i := o.Round - rounds[0].Sequence; i < uint64(len(rounds)) {
			o.Round, o.Started = 0, time.Time{}
			rounds[i].Operations = append(rounds[i].Operations, o)
		}
	}
	return rounds
}

// copyRounds returns the rounds without their operations.
func (j *Journal[Obj]) copyRounds() (rounds []inspect.Round) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n := j.added - min(j.added, MaxRounds); n < j.added; n++ {
		rounds = append(rounds, j.rounds[n%MaxRounds].Round)
	}
	return rounds
}

// Operations returns the operations in the journal, the oldest first: those on objects that match, or all
// if match is nil, of rounds that began at since or later. If limit is not zero, it returns the
// latest limit operations. match is called under the lock.
func (j *Journal[Obj]) Operations(match func(Obj) bool, since time.Time, limit int) []inspect.Operation {
	operations, objects := j.latest(match, since, limit)
	// name calls the user's functions: not under the lock.
	for i := range operations {
		operations[i].Key = j.name(objects[i])
	}
	slices.Reverse(operations)
	return operations
}

// latest is Operations in the order of the latest first, with the objects in place of their keys.
func (j *Journal[Obj]) latest(match func(Obj) bool, since time.Time, limit int) (operations []inspect.Operation, objects []Obj) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := j.ran - min(j.ran, MaxOperations)
	next := j.ran
	for n := j.added; n > j.added-min(j.added, MaxRounds); n-- {
		r := &j.rounds[(n-1)%MaxRounds]
		if r.Started.Before(since) {
			break
		}
		for ; next > max(r.first, oldest); next-- {
			e := &j.operations[(next-1)%MaxOperations]
			if match != nil && !match(e.Object) {
				continue
			}
			o := e.operation()
			o.Round, o.Started = r.Sequence, r.Started
			operations, objects = append(operations, o), append(objects, e.Object)
			if len(operations) == limit {
				return operations, objects
			}
		}
	}
	return operations, objects
}
