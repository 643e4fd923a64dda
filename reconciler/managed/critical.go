// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// CriticalAnnotationUpdater writes annotations that must not be lost, above all the external name,
// directly after a create. A process that loses its table in a crash, and whose outside system chooses
// the names, needs one that writes to durable storage. The process can also crash between the create
// and that write. So in [ExternalClient].Create the client must write the annotations of the object it
// receives to the same storage before it creates anything. They record that a create is pending; a row
// with them stops and waits for a person.
type CriticalAnnotationUpdater[T any] interface {
	// UpdateCriticalAnnotations writes the annotations of an object, which is a clone. It is called
	// after each create, successful or not, even if the timeout of the pass has expired or the
	// reconciler stops: the context ends ten seconds after the call begins, and not with those. After
	// a successful create an error is the outcome of the pass, otherwise it is an event; the process
	// then remembers the annotations for as long as it runs.
	UpdateCriticalAnnotations(ctx context.Context, obj T) error
}

// CriticalAnnotationUpdateFn is a function that implements [CriticalAnnotationUpdater].
type CriticalAnnotationUpdateFn[T any] func(ctx context.Context, obj T) error

// UpdateCriticalAnnotations calls the function.
func (fn CriticalAnnotationUpdateFn[T]) UpdateCriticalAnnotations(ctx context.Context, obj T) error {
	return fn(ctx, obj)
}

// ErrRowGone is returned when the row that a function must write or wait for does not exist.
var ErrRowGone = errors.New("the row is gone")

// RetryingCriticalAnnotationUpdater writes the annotations of this package into the table, onto the
// current version of the row. It tries up to five times: it waits 10 ms after the first failure, and
// twice as long after each further one.
type RetryingCriticalAnnotationUpdater[T Managed] struct {
	db    *statedb.DB
	table statedb.RWTable[T]
	clone func(T) T
}

const (
	criticalTries = 5
	criticalWait  = 10 * time.Millisecond
)

// NewRetryingCriticalAnnotationUpdater returns an updater for the rows of a table. clone is the Clone
// of [reconciler.Config].
func NewRetryingCriticalAnnotationUpdater[T Managed](db *statedb.DB, table statedb.RWTable[T], clone func(T) T) *RetryingCriticalAnnotationUpdater[T] {
	return &RetryingCriticalAnnotationUpdater[T]{db, table, clone}
}

// UpdateCriticalAnnotations writes the reconciler's notes, and the annotations that Create changed,
// onto the row of the object. If the row has changed meanwhile, it writes nothing else. It returns
// [ErrRowGone] at once if there is no row, else the table's error after the last try.
func (u *RetryingCriticalAnnotationUpdater[T]) UpdateCriticalAnnotations(ctx context.Context, obj T) error {
	// If the row has not changed during the update, this saves the loop a conflict.
	if reconciler.Checkpoint(ctx, obj) == nil {
		return nil
	}
	var err error
	for try := range criticalTries {
		if try > 0 {
			select {
			case <-time.After(criticalWait << (try - 1)):
			case <-ctx.Done():
			}
		}
		err = rewrite(u.db, u.table, obj, func(current T) (T, error) {
			next := u.clone(current)
			mergeAnnotations(next, obj)
			return next, nil
		})
		if err == nil || errors.Is(err, ErrRowGone) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("annotations of %q: %w", object.KeyOf(obj).String(), err)
	}
	return nil
}

// rewrite replaces the present version of the row of an object by the one that change returns. The error
// is [ErrRowGone], or that of change or of the table.
func rewrite[T Managed](db *statedb.DB, table statedb.RWTable[T], obj T, change func(current T) (T, error)) error {
	wtxn := db.WriteTxn(table)
	defer wtxn.Abort()
	current, _, found := rowOf(table, wtxn, obj)
	if !found {
		return ErrRowGone
	}
	next, err := change(current)
	if err == nil {
		_, _, err = table.Insert(wtxn, next)
	}
	if err != nil {
		return err
	}
	wtxn.Commit()
	return nil
}
