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

	"github.com/cilium/statedb"
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
// single or of a batch, with the context of that call and the object or a copy of it,
// any number of times, but not after the call has returned; the object's status stays the one that asks for the update, and
// the outcome is written onto it later. What is written is a clone: the update may go
// on changing its object.
//
// The error is [ErrConflict] if the object in the table is not the one that the update
// was handed: then nothing is written, and the update should give up, since it will be
// called with the new version. If only another reconciler's status was written, the
// two are merged with the function of [WithMerge]; without one that is a conflict, too.
// It is [ErrNoOperation] if ctx is not that of an update, or obj not an object of it.
func Checkpoint[Obj comparable](ctx context.Context, obj Obj) error {
	s, ok := ctx.Value(scopeKey{}).(*scope[Obj])
	if !ok {
		return fmt.Errorf("checkpoint: %w", ErrNoOperation)
	}
	if err := s.checkpoint(obj); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

type scopeKey struct{}

// scope is what a checkpoint knows of the call that it is made in. There is one for each
// worker, in the context of all its calls.
type scope[Obj comparable] struct {
	loop *Loop[Obj]

	// mu is for operations that have goroutines of their own.
	mu       sync.Mutex
	tasks    []task[Obj]
	attempts []attempt[Obj]
	// at is the one of the tasks that is being run, or wholeBatch.
	at atomic.Int32
}

const wholeBatch = -1

// set says what the calls from now on are for.
func (s *scope[Obj]) set(tasks []task[Obj], attempts []attempt[Obj]) {
	s.mu.Lock()
	s.tasks, s.attempts = tasks, attempts
	s.at.Store(wholeBatch)
	s.mu.Unlock()
}

func (s *scope[Obj]) checkpoint(obj Obj) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, a := s.find(obj)
	if t == nil {
		return ErrNoOperation
	}
	l := s.loop
	row := l.cfg.Clone(obj)
	wtxn := l.cfg.DB.WriteTxn(l.cfg.Table)
	defer wtxn.Abort()
	current, _, err := l.cfg.Table.CompareAndSwap(wtxn, t.revision, row)
	if errors.Is(err, statedb.ErrRevisionNotEqual) && l.merge != nil && l.sameWish(a.row, current) {
		row = l.cfg.SetStatus(l.merge(l.cfg.Clone(current), row), l.cfg.GetStatus(row))
		_, _, err = l.cfg.Table.Insert(wtxn, row)
	}
	if err != nil {
		return ErrConflict
	}
	t.revision = l.cfg.Table.Revision(wtxn)
	a.row = row
	wtxn.Commit()
	return nil
}

// find returns the task of an object, nil if there is none.
func (s *scope[Obj]) find(obj Obj) (*task[Obj], *attempt[Obj]) {
	key := s.loop.indexer.ObjectToKey(obj)
	from, to := 0, len(s.tasks)
	if at := int(s.at.Load()); at != wholeBatch && at < to {
		from, to = at, at+1
	}
	for i := from; i < to; i++ {
		if !s.tasks[i].deleted && bytes.Equal(s.loop.indexer.ObjectToKey(s.attempts[i].row), key) {
			return &s.tasks[i], &s.attempts[i]
		}
	}
	return nil, nil
}
