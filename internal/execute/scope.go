// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/internal/text"
)

var (
	// ErrConflict is returned by [Checkpoint] when the object was changed or deleted
	// since the operation was handed it.
	ErrConflict = errors.New("the object has changed")
	// ErrNoOperation is returned by [Checkpoint] outside of an update.
	ErrNoOperation = errors.New("not in an update of this object")
)

// MaxNote is how many bytes of a note are kept. What is longer is cut, and ends in "…".
const MaxNote = 1024

// Checkpoint writes the object that an update was handed into the table, as the update has changed
// it so far. The error is [ErrConflict] or [ErrNoOperation].
func Checkpoint[Obj comparable](ctx context.Context, obj Obj) error {
	s, ok := ctx.Value(running.Key{}).(*Scope[Obj])
	if !ok {
		return fmt.Errorf("checkpoint: %w", ErrNoOperation)
	}
	if err := s.checkpoint(obj); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Note attaches a text to the operation on a single object that is running; elsewhere it does
// nothing.
func Note(ctx context.Context, text string) {
	if s, ok := ctx.Value(running.Key{}).(noter); ok {
		s.note(text)
	}
}

// NoteOn is [Note] for one object of a call, which may be for many.
func NoteOn[Obj comparable](ctx context.Context, obj Obj, text string) {
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok {
		s.noteOn(obj, text)
	}
}

// ScopeOf returns the scope of the operation of which a context is, if that operation is on the
// given rows; else nil.
func ScopeOf[Obj comparable](ctx context.Context, of *rows.Rows[Obj]) *Scope[Obj] {
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok && s.rows == of {
		return s
	}
	return nil
}

// Scope is what an operation may reach through its context. There is one for each executor, in the
// context of all its calls. Its methods are safe from any goroutine.
type Scope[Obj comparable] struct {
	rows *rows.Rows[Obj]

	// mu is for operations that have goroutines of their own, and for those who ask. It is
	// not held while waiting for the table, which some of these may have locked.
	mu    sync.Mutex
	tasks []Task[Obj]
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
	calling atomic.Pointer[Calling]
}

// Calling is a call that is being made: for a batch, or a prune, for which Objects is 0. Since is
// when it began.
type Calling struct {
	Operation string
	Objects   int
	Since     time.Duration
}

// Begin notes that a call for a batch, or a prune, is being made from now on.
func (s *Scope[Obj]) Begin(operation string, objects int, now time.Duration) {
	s.calling.Store(&Calling{operation, objects, now})
}

// End notes that it is over.
func (s *Scope[Obj]) End() { s.calling.Store(nil) }

// Calling returns the call for a batch, or the prune, that is being made; nil if none is.
func (s *Scope[Obj]) Calling() *Calling { return s.calling.Load() }

const wholeBatch = -1

// kinds says which operations a call is for.
type kinds uint8

const (
	allKinds kinds = iota
	onlyUpdates
	onlyDeletes
)

// set says what the calls from now on, which is since, are for.
func (s *Scope[Obj]) set(since time.Duration, tasks []Task[Obj], of kinds) {
	s.mu.Lock()
	s.tasks, s.next, s.since, s.kinds = tasks, -1, since, of
	s.call++
	s.at.Store(wholeBatch)
	s.mu.Unlock()
}

// Running returns the object of the operation that is being run, and since when at most;
// false if none is, or a batch.
func (s *Scope[Obj]) Running() (obj Obj, operation string, since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int(s.at.Load())
	if at < 0 || at >= len(s.tasks) {
		return obj, "", 0, false
	}
	return s.tasks[at].Row, s.tasks[at].Operation(), s.since, true
}

// IsBusy reports whether a call is being made.
func (s *Scope[Obj]) IsBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks) > 0 || s.calling.Load() != nil
}

// Row implements [running.Operation].
func (s *Scope[Obj]) Row() (row Obj, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.tasks) {
		return s.tasks[at].Row, true
	}
	return row, false
}

func (s *Scope[Obj]) checkpoint(obj Obj) error {
	call, place := s.placeOf(obj)
	if place < 0 {
		return ErrNoOperation
	}
	r := s.rows
	obj = r.Clone(obj)
	// The table before the scope, which is not held while waiting for the table.
	wtxn := r.DB.WriteTxn(r.Table)
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != call || !s.runs(place) || s.tasks[place].Deleted {
		return ErrNoOperation
	}
	t := &s.tasks[place]
	row, ok := s.write(wtxn, t, obj)
	if !ok {
		return ErrConflict
	}
	t.Revision = r.Table.Revision(wtxn)
	t.Row = row
	wtxn.Commit()
	return nil
}

// write puts an object in the place of the row that its update was handed, or merges it
// with what another reconciler has written, and returns what is in the table then.
func (s *Scope[Obj]) write(wtxn statedb.WriteTxn, t *Task[Obj], obj Obj) (row Obj, ok bool) {
	r := s.rows
	current, revision, found := r.Get(wtxn, obj)
	t.Merged = t.Merged || found && revision != t.Revision && r.Merge != nil && r.SamePending(t.Row, current)
	switch {
	case !found:
		return obj, false
	case t.Merged && r.SamePending(t.Row, current):
		obj = r.SetStatus(r.Merge(r.Clone(current), obj), r.GetStatus(obj))
	case revision != t.Revision:
		return obj, false
	}
	_, _, err := r.Table.Insert(wtxn, obj)
	return obj, err == nil
}

// placeOf returns the call that is being made, and the place of an object's task in it; -1 if it
// has none.
func (s *Scope[Obj]) placeOf(obj Obj) (call uint64, place int) {
	s.mu.Lock()
	// The key function may panic: of a nil object, for example.
	defer s.mu.Unlock()
	return s.call, s.find(obj)
}

// find returns the place of an object's task; -1 if it has none.
func (s *Scope[Obj]) find(obj Obj) int {
	key := s.rows.Key(obj)
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
func (s *Scope[Obj]) runs(place int) bool {
	at := int(s.at.Load())
	return at == place || at == wholeBatch
}

// matches reports whether the calls are for the task at a place, and that has a key.
func (s *Scope[Obj]) matches(place int, key []byte) bool {
	if place >= len(s.tasks) {
		return false
	}
	deleted := s.tasks[place].Deleted
	if s.kinds == onlyUpdates && deleted || s.kinds == onlyDeletes && !deleted {
		return false
	}
	return bytes.Equal(s.rows.Key(s.tasks[place].Row), key)
}

// noter is a scope, whatever its objects are.
type noter interface{ note(text string) }

func (s *Scope[Obj]) note(text string) {
	s.mark(func(t *Task[Obj]) { t.noted(text) })
}

func (s *Scope[Obj]) noteOn(obj Obj, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := s.find(obj); place >= 0 {
		s.tasks[place].noted(text)
	}
}

// Deletion implements [running.Operation]: see [running.Deletion].
func (s *Scope[Obj]) Deletion() {
	s.mark(func(t *Task[Obj]) { t.Deletion = true })
}

// Changed implements [running.Operation]: see [running.Changed].
func (s *Scope[Obj]) Changed() {
	s.mark(func(t *Task[Obj]) { t.Changed = true })
}

// mark notes something of the operation that is running on a single object.
func (s *Scope[Obj]) mark(how func(*Task[Obj])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.tasks) {
		how(&s.tasks[at])
	}
}

func (t *Task[Obj]) noted(said string) {
	t.Note = nil
	if said != "" {
		// It may be a piece of a text that is long.
		said = strings.Clone(text.Short(said, MaxNote))
		t.Note = &said
	}
}
