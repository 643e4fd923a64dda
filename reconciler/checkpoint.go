// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
)

var (
	// ErrConflict is what [Checkpoint] returns when the object was changed or deleted
	// since the operation was handed it.
	ErrConflict = errors.New("the object has changed")
	// ErrNoOperation is what [Checkpoint] returns outside of an update.
	ErrNoOperation = errors.New("not in an update of this object")
)

// Checkpoint writes the object that an update was handed into the table, as the update
// has changed it so far, for what must not be forgotten if the program ends here, such
// as that a resource is about to be created. It is called in the middle of an update,
// single or of a batch, with the context of that call and the object or a copy of it, any
// number of times and from any goroutine, but not after the call has returned, nor while
// holding a write transaction of the table. The object's status stays the one that asks
// for the update, and the outcome is written onto it later. What is written is a clone:
// the update may go on changing its object.
//
// The error is [ErrConflict] if the object in the table is not the one that the update
// was handed: then nothing is written, and the update should give up, and return the
// error: it will be called with the new version. If only another reconciler's status was written, the
// two are merged with the function of [Config].Merge; without one that is a conflict, too.
// It is [ErrNoOperation] if ctx is not that of an update, or obj not an object of it, or if the
// call has returned while the checkpoint waited for the table.
func Checkpoint[Obj comparable](ctx context.Context, obj Obj) error {
	s, ok := ctx.Value(running.Key{}).(*scope[Obj])
	if !ok {
		return fmt.Errorf("checkpoint: %w", ErrNoOperation)
	}
	if err := s.checkpoint(obj); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// scope is what a checkpoint knows of the call that it is made in. There is one for each
// worker, in the context of all its calls.
type scope[Obj comparable] struct {
	loop *Loop[Obj]

	// mu is for operations that have goroutines of their own, and for those who ask. It is
	// not held while waiting for the table, which some of these may have locked.
	mu       sync.Mutex
	tasks    []task[Obj]
	attempts []attempt[Obj]
	// call counts the calls of set: a checkpoint that has waited for the table belongs to the
	// tasks for which it was made.
	call uint64
	// at is the one of the tasks that is being run, or wholeBatch.
	at atomic.Int32
	// next is the one of a batch that was found last.
	next int
	// kinds are the operations that the calls are for.
	kinds kinds
	// since is when the tasks began, by the loop's clock; calling is the call for a batch
	// that is being made, nil if none is.
	since   time.Duration
	calling atomic.Pointer[calling]
}

// calling is a call that is being made.
type calling struct {
	operation string
	objects   int
	since     time.Duration
}

const wholeBatch = -1

// kinds says which operations a call is for.
type kinds uint8

const (
	allKinds kinds = iota
	onlyUpdates
	onlyDeletes
)

// set says what the calls from now on, which is since, are for.
func (s *scope[Obj]) set(since time.Duration, tasks []task[Obj], attempts []attempt[Obj], of kinds) {
	s.mu.Lock()
	s.tasks, s.attempts, s.next, s.since, s.kinds = tasks, attempts, -1, since, of
	s.call++
	s.at.Store(wholeBatch)
	s.mu.Unlock()
}

// running returns the object of the operation that is being run, and since when at most;
// false if none is, or a batch.
func (s *scope[Obj]) running() (obj Obj, operation string, since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int(s.at.Load())
	if at < 0 || at >= len(s.tasks) {
		return obj, "", 0, false
	}
	return s.attempts[at].row, s.tasks[at].operation(), s.since, true
}

// busy reports whether a call is being made.
func (s *scope[Obj]) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks) > 0 || s.calling.Load() != nil
}

// Row implements [running.Operation].
func (s *scope[Obj]) Row() (row Obj, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.attempts) {
		return s.attempts[at].row, true
	}
	return row, false
}

func (s *scope[Obj]) checkpoint(obj Obj) error {
	call, place := s.placeOf(obj)
	if place < 0 {
		return ErrNoOperation
	}
	l := s.loop
	obj = l.rows.Clone(obj)
	// The table before the scope, which is not held while waiting for the table.
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != call || !s.runs(place) || s.tasks[place].deleted {
		return ErrNoOperation
	}
	t, a := &s.tasks[place], &s.attempts[place]
	row, ok := s.write(wtxn, t, a, obj)
	if !ok {
		return ErrConflict
	}
	t.revision = l.rows.Table.Revision(wtxn)
	a.row = row
	wtxn.Commit()
	return nil
}

// write puts an object in the place of the row that its update was handed, or merges it
// with what another reconciler has written, and returns what is in the table then.
func (s *scope[Obj]) write(wtxn statedb.WriteTxn, t *task[Obj], a *attempt[Obj], obj Obj) (row Obj, ok bool) {
	l := s.loop
	current, revision, found := l.rows.Get(wtxn, obj)
	t.merged = t.merged || found && revision != t.revision && l.rows.Merge != nil && l.rows.SamePending(a.row, current)
	switch {
	case !found:
		return obj, false
	case t.merged && l.rows.SamePending(a.row, current):
		obj = l.rows.SetStatus(l.rows.Merge(l.rows.Clone(current), obj), l.rows.GetStatus(obj))
	case revision != t.revision:
		return obj, false
	}
	_, _, err := l.rows.Table.Insert(wtxn, obj)
	return obj, err == nil
}

// placeOf returns the call that is being made, and the place of an object's task in it; -1 if it
// has none.
func (s *scope[Obj]) placeOf(obj Obj) (call uint64, place int) {
	s.mu.Lock()
	// The key function may panic: of a nil object, for example.
	defer s.mu.Unlock()
	return s.call, s.find(obj)
}

// find returns the place of an object's task; -1 if it has none.
func (s *scope[Obj]) find(obj Obj) int {
	key := s.loop.rows.Key(obj)
	if at := int(s.at.Load()); at != wholeBatch {
		if s.matches(at, key) {
			return at
		}
		return -1
	}
	// A batch is mostly gone through in order.
	for range s.tasks {
		s.next = (s.next + 1) % len(s.tasks)
		if s.matches(s.next, key) {
			return s.next
		}
	}
	return -1
}

// runs reports whether the task at a place is being run.
func (s *scope[Obj]) runs(place int) bool {
	at := int(s.at.Load())
	return at == place || at == wholeBatch
}

// matches reports whether the calls are for the task at a place, and that has a key.
func (s *scope[Obj]) matches(place int, key []byte) bool {
	if place >= len(s.tasks) {
		return false
	}
	deleted := s.tasks[place].deleted
	if s.kinds == onlyUpdates && deleted || s.kinds == onlyDeletes && !deleted {
		return false
	}
	return bytes.Equal(s.loop.rows.Key(s.attempts[place].row), key)
}
