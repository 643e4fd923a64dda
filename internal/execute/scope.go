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

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/internal/text"
)

var (
	// ErrConflict is returned by [Checkpoint] when the object was changed or deleted after it was
	// passed to the operation.
	ErrConflict = errors.New("the object has changed")
	// ErrNoOperation is returned by [Checkpoint] outside an update of the object.
	ErrNoOperation = errors.New("not in an update of this object")
	// ErrNotWritable is returned by [Checkpoint] if the rows carry no status: then the reconciler never
	// writes the table. It is terminal.
	ErrNotWritable = outcome.TerminalError(errors.New("the reconciler does not write its table"))
)

// MaxNote bounds the bytes of a note. A longer note is cut, and ends in "…".
const MaxNote = 1024

// Checkpoint writes the object of a running update into the table, as the update has changed it so
// far. It returns [ErrConflict], [ErrNoOperation], [ErrNotWritable] or nil.
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

// Note attaches a text to the running operation on a single object. Elsewhere it does nothing.
func Note(ctx context.Context, text string) {
	if s, ok := ctx.Value(running.Key{}).(noter); ok {
		s.note(text)
	}
}

// NoteOn is [Note] for one object of the running call, which may be for a batch.
func NoteOn[Obj comparable](ctx context.Context, obj Obj, text string) {
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok {
		s.noteOn(obj, text)
	}
}

// ScopeOf returns the scope of the operation that ctx belongs to, or nil if that operation is not on
// the given rows.
func ScopeOf[Obj comparable](ctx context.Context, of *rows.Rows[Obj]) *Scope[Obj] {
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok && s.rows == of {
		return s
	}
	return nil
}

// Scope is what an operation can reach through its context. Each executor has one, in the context of
// all its calls. Its methods are safe from any goroutine.
type Scope[Obj comparable] struct {
	rows *rows.Rows[Obj]

	// mu guards the fields below, except for the atomic ones: operations may have goroutines of their
	// own, and other goroutines ask what is running. It is not held while waiting for the table,
	// which one of these goroutines may have locked.
	mu  sync.Mutex
	ops []core.Operation[Obj]
	// call counts the calls of set. A checkpoint that has waited for the table compares it, to detect
	// that the executor has moved on to other operations.
	call uint64
	// at is the index of the running operation, or wholeBatch.
	at atomic.Int32
	// next is the index of the operation of a batch that was found last.
	next int
	// kinds restricts the operations of the current call to deletions or updates.
	kinds kinds
	// since is when the operations began, by the loop's clock. calling is the current call for a batch, or
	// prune; nil if there is none.
	since   time.Duration
	calling atomic.Pointer[Calling]
}

// Calling is a call in progress, for a batch or for a prune. Objects is 0 for a prune. Since is when
// it began, by the loop's clock.
type Calling struct {
	Operation string
	Objects   int
	Since     time.Duration
}

// Begin records that a call for a batch, or a prune, has begun.
func (s *Scope[Obj]) Begin(operation string, objects int, now time.Duration) {
	s.calling.Store(&Calling{operation, objects, now})
}

// End records that the call has ended.
func (s *Scope[Obj]) End() { s.calling.Store(nil) }

// Calling returns the current call for a batch, or prune; nil if there is none.
func (s *Scope[Obj]) Calling() *Calling { return s.calling.Load() }

const wholeBatch = -1

// kinds are the operations of a call.
type kinds uint8

const (
	allKinds kinds = iota
	onlyUpdates
	onlyDeletes
)

// set records the operations of the calls that begin at since; of is their kinds. Without operations it
// records that none is running.
func (s *Scope[Obj]) set(since time.Duration, ops []core.Operation[Obj], of kinds) {
	s.mu.Lock()
	s.ops, s.next, s.since, s.kinds = ops, -1, since, of
	s.call++
	s.at.Store(wholeBatch)
	s.mu.Unlock()
}

// Running returns the object and the name of the running operation. since is when its round or job began, so
// the operation began then or later. ok is false if no operation is running, or a batch.
func (s *Scope[Obj]) Running() (obj Obj, operation string, since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int(s.at.Load())
	if at < 0 || at >= len(s.ops) {
		return obj, "", 0, false
	}
	return s.ops[at].Row, NameOf(s.ops[at].Deleted), s.since, true
}

// IsBusy reports whether a call is in progress.
func (s *Scope[Obj]) IsBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ops) > 0 || s.calling.Load() != nil
}

// Row implements [running.Operation].
func (s *Scope[Obj]) Row() (row Obj, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.ops) {
		return s.ops[at].Row, true
	}
	return row, false
}

func (s *Scope[Obj]) checkpoint(obj Obj) error {
	call, place := s.placeOf(obj)
	if place < 0 {
		return ErrNoOperation
	}
	r := s.rows
	if r.Writable == nil {
		return ErrNotWritable
	}
	obj = r.Copy(obj)
	// Lock order: the table before the scope.
	wtxn := r.DB.WriteTxn(r.Table)
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != call || !s.runs(place) || s.ops[place].Deleted {
		return ErrNoOperation
	}
	op := &s.ops[place]
	row, ok := s.write(wtxn, op, obj)
	if !ok {
		return ErrConflict
	}
	op.RowRevision = r.Table.Revision(wtxn)
	op.Row = row
	wtxn.Commit()
	return nil
}

// write replaces the row that was passed to the update with obj, or merges obj with what another
// reconciler has written. It returns the row that is then in the table; ok is false on a conflict.
func (s *Scope[Obj]) write(wtxn statedb.WriteTxn, op *core.Operation[Obj], obj Obj) (row Obj, ok bool) {
	r, w := s.rows, s.rows.Writable
	current, revision, found := r.Get(wtxn, obj)
	op.Merged = op.Merged || found && revision != op.RowRevision && w.Merge != nil && r.SamePending(op.Row, current)
	switch {
	case !found:
		return obj, false
	case op.Merged && r.SamePending(op.Row, current):
		obj = w.SetStatus(w.Merge(w.Clone(current), obj), w.GetStatus(obj))
	case revision != op.RowRevision:
		return obj, false
	}
	_, _, err := w.Table.Insert(wtxn, obj)
	return obj, err == nil
}

// placeOf returns the number of the current call, and the index of an object's operation in it; -1 if
// there is none.
func (s *Scope[Obj]) placeOf(obj Obj) (call uint64, place int) {
	s.mu.Lock()
	// Deferred: the user's key function may panic, for a nil object for example.
	defer s.mu.Unlock()
	return s.call, s.find(obj)
}

// find returns the index of an object's operation; -1 if there is none. The caller holds mu.
func (s *Scope[Obj]) find(obj Obj) int {
	key, err := s.rows.KeyOf(obj)
	if err != nil {
		return -1
	}
	if at := int(s.at.Load()); at != wholeBatch {
		if s.matches(at, key) {
			return at
		}
		return -1
	}
	// Operations mostly go through a batch in order.
	for range s.ops {
		s.next = (s.next + 1) % len(s.ops)
		if s.matches(s.next, key) {
			return s.next
		}
	}
	return -1
}

// runs reports whether the operation at an index is running.
func (s *Scope[Obj]) runs(place int) bool {
	at := int(s.at.Load())
	return at == place || at == wholeBatch
}

// matches reports whether the operation at an index is in the current call and has the key.
func (s *Scope[Obj]) matches(place int, key []byte) bool {
	if place >= len(s.ops) {
		return false
	}
	deleted := s.ops[place].Deleted
	if s.kinds == onlyUpdates && deleted || s.kinds == onlyDeletes && !deleted {
		return false
	}
	return bytes.Equal(s.rows.Key(s.ops[place].Row), key)
}

// noter is a Scope of any type of object.
type noter interface{ note(text string) }

func (s *Scope[Obj]) note(text string) {
	s.mark(func(op *core.Operation[Obj]) { noted(op, text) })
}

func (s *Scope[Obj]) noteOn(obj Obj, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := s.find(obj); place >= 0 {
		noted(&s.ops[place], text)
	}
}

// Deletion implements [running.Operation]: see [running.Deletion].
func (s *Scope[Obj]) Deletion() {
	s.mark(func(op *core.Operation[Obj]) { op.Deletion = true })
}

// Changed implements [running.Operation]: see [running.Changed].
func (s *Scope[Obj]) Changed() {
	s.mark(func(op *core.Operation[Obj]) { op.Changed = true })
}

// mark changes the running operation on a single object. It does nothing in a batch.
func (s *Scope[Obj]) mark(how func(*core.Operation[Obj])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.ops) {
		how(&s.ops[at])
	}
}

// noted sets the note of an operation.
func noted[Obj any](op *core.Operation[Obj], said string) {
	op.Note = nil
	if said != "" {
		// A clone: the text may be a piece of a long one.
		said = strings.Clone(text.Short(said, MaxNote))
		op.Note = &said
	}
}
