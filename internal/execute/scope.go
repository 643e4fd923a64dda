// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/needs"
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
func Checkpoint[Obj any](ctx context.Context, obj Obj) error {
	err := ErrNoOperation
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok {
		err = s.checkpoint(obj)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Note attaches a text to the running operation on a single object. Elsewhere it does nothing.
func Note(ctx context.Context, text string) {
	if s, ok := ctx.Value(running.Key{}).(interface{ note(text string) }); ok {
		s.note(text)
	}
}

// NoteOn is [Note] for one object of the running call, which may be for a batch.
func NoteOn[Obj any](ctx context.Context, obj Obj, text string) {
	if s, ok := ctx.Value(running.Key{}).(*Scope[Obj]); ok {
		s.noteOn(obj, text)
	}
}

// ScopeOf returns the scope of the operation that ctx belongs to, or nil if that operation is not on
// the given rows.
func ScopeOf[Obj any](ctx context.Context, of *rows.Rows[Obj]) *Scope[Obj] {
	if s := AnyScopeOf[Obj](ctx); s != nil && s.rows == of {
		return s
	}
	return nil
}

// AnyScopeOf returns the scope of the operation that ctx belongs to; nil if that is not of a loop with rows of type Obj.
func AnyScopeOf[Obj any](ctx context.Context) *Scope[Obj] {
	s, _ := ctx.Value(running.Key{}).(*Scope[Obj])
	return s
}

// Waited returns the waits that the objects of the call in progress had when they were blocked.
func Waited(ctx context.Context) needs.Waited {
	s, ok := ctx.Value(running.Key{}).(interface{ waited() []core.Wait })
	if !ok {
		return func(func(core.Wait) bool) {}
	}
	return slices.Values(s.waited())
}

// Scope is what an operation can reach through its context. Each executor has one, in the context of
// all its calls. Its methods are safe from any goroutine.
type Scope[Obj any] struct {
	rows *rows.Rows[Obj]
	// Needs has what others need of the objects of the loop.
	Needs *needs.Needs[Obj]
	// one is the running operation on a single object; nil if there is none.
	one atomic.Pointer[core.Operation[Obj]]

	// mu guards the fields below: operations may have goroutines of their own, and other goroutines ask
	// what is running. It is not held while waiting for the table, which one of these goroutines may have
	// locked.
	mu sync.Mutex
	// calling is the turn or call in progress.
	calling Calling[Obj]
	// next is the index of the operation of a batch that was found last.
	next int
	// changes counts the calls of Set. A checkpoint that has waited for the table compares it, to detect
	// that the executor has moved on to other operations.
	changes uint64
}

// Calling is a call in progress.
type Calling[Obj any] struct {
	// Operation is the name of the call; empty if there is none.
	Operation string
	// Objects is the number of objects of a batch; 0 for a prune and for a single object. Single: the call is
	// for the single object Object.
	Objects int
	Object  Obj
	Single  bool
	// Since is when the call began, by the loop's clock. A call for a single object began then or later: it is
	// when its turn began.
	Since time.Duration
	// ops has the operations of a batch, also those of other kinds.
	ops []core.Operation[Obj]
}

// Set records the call in progress. It is for the goroutine that makes the call.
func (s *Scope[Obj]) Set(c Calling[Obj]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.one.Store(nil)
	s.calling, s.next = c, -1
	s.changes++
}

// Calling returns the call in progress.
func (s *Scope[Obj]) Calling() Calling[Obj] {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calling
	if op := s.one.Load(); op != nil {
		c.Operation, c.Object, c.Single = NameOf(op.Deleted), op.Row, true
	}
	return c
}

func (s *Scope[Obj]) checkpoint(obj Obj) error {
	op, changes := s.operationOf(obj)
	r, w := s.rows, s.rows.Writable
	switch {
	case op == nil:
		return ErrNoOperation
	case w == nil:
		return ErrNotWritable
	}
	obj = r.Copy(obj)
	// Lock order: the table before the scope.
	wtxn := r.DB.WriteTxn(r.Table)
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.one.Load(); s.changes != changes || one != nil && one != op || op.Deleted {
		return ErrNoOperation
	}
	// Another reconciler may have written the row since the operation got it.
	current, revision, found := r.Get(wtxn, obj)
	same := found && r.SamePending(op.Row, current)
	op.Run.Merged = op.Run.Merged || same && revision != op.RowRevision && w.Merge != nil
	if op.Run.Merged && same {
		obj = w.SetStatus(w.Merge(w.Clone(current), obj), w.GetStatus(obj))
	} else if !found || revision != op.RowRevision {
		return ErrConflict
	}
	if _, _, err := w.Table.Insert(wtxn, obj); err != nil {
		return ErrConflict
	}
	op.Row, op.RowRevision = obj, r.Table.Revision(wtxn)
	wtxn.Commit()
	return nil
}

// operationOf returns the operation of an object in the call in progress, nil if there is none, and the number
// of changes.
func (s *Scope[Obj]) operationOf(obj Obj) (*core.Operation[Obj], uint64) {
	s.mu.Lock()
	// Deferred: the user's key function may panic, for a nil object for example.
	defer s.mu.Unlock()
	return s.find(obj), s.changes
}

// find returns the operation of an object in the call in progress; nil if there is none. The caller holds mu.
func (s *Scope[Obj]) find(obj Obj) *core.Operation[Obj] {
	key, err := s.rows.KeyOf(obj)
	if err != nil {
		return nil
	}
	if op := s.one.Load(); op != nil && s.rows.HasKey(op.Row, key) {
		return op
	}
	// Operations mostly go through a batch in order.
	c := &s.calling
	for range c.ops {
		s.next = (s.next + 1) % len(c.ops)
		op := &c.ops[s.next]
		if (c.Operation == opRound || c.Operation == NameOf(op.Deleted)) && s.rows.HasKey(op.Row, key) {
			return op
		}
	}
	return nil
}

// single calls f with the running operation on a single object, and reports whether there is one.
func (s *Scope[Obj]) single(f func(*core.Operation[Obj])) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.one.Load()
	if op != nil {
		f(op)
	}
	return op != nil
}

// Row implements [running.Operation].
func (s *Scope[Obj]) Row() (row Obj, ok bool) {
	ok = s.single(func(op *core.Operation[Obj]) { row = op.Row })
	return row, ok
}

// Deletion implements [running.Operation]: see [running.Deletion].
func (s *Scope[Obj]) Deletion() { s.single(func(op *core.Operation[Obj]) { op.Run.Deletion = true }) }

// Changed implements [running.Operation]: see [running.Changed].
func (s *Scope[Obj]) Changed() { s.single(func(op *core.Operation[Obj]) { op.Run.Changed = true }) }

// waited implements [Waited].
func (s *Scope[Obj]) waited() (waits []core.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.one.Load(); op != nil {
		waits = append(waits, op.Waits...)
	}
	for i := range s.calling.ops {
		waits = append(waits, s.calling.ops[i].Waits...)
	}
	return waits
}

func (s *Scope[Obj]) note(text string) {
	s.single(func(op *core.Operation[Obj]) { op.Run.Note = noted(text) })
}

func (s *Scope[Obj]) noteOn(obj Obj, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.find(obj); op != nil {
		op.Run.Note = noted(text)
	}
}

// noted returns a text as the note of an operation.
func noted(said string) *string {
	if said == "" {
		return nil
	}
	// A clone: the text may be a piece of a long one.
	said = strings.Clone(text.Short(said, MaxNote))
	return &said
}
