// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// CriticalAnnotationUpdater writes annotations that must not be lost, as the external name after a
// create, before anything else is done. With names that the outside system chooses a process that
// loses its table in a crash needs one that writes them where they last. Between a create and that
// it may crash, too: so its client has to write the annotations of the object it is handed there
// before it creates anything, in [ExternalClient].Create. They say that the create is pending, and
// a row that has them stops, for a person to find out.
type CriticalAnnotationUpdater[T any] interface {
	// UpdateCriticalAnnotations writes the annotations of an object, a clone. It is called
	// after each create, whatever came of it, also when the time of the pass is up or the
	// reconciler stops: the context outlasts both, by ten seconds. An error is the outcome of
	// the pass; the reconciler then remembers the annotations for as long as it lives.
	UpdateCriticalAnnotations(ctx context.Context, obj T) error
}

// CriticalAnnotationUpdateFn makes a [CriticalAnnotationUpdater] of a function.
type CriticalAnnotationUpdateFn[T any] func(ctx context.Context, obj T) error

// UpdateCriticalAnnotations calls the function.
func (fn CriticalAnnotationUpdateFn[T]) UpdateCriticalAnnotations(ctx context.Context, obj T) error {
	return fn(ctx, obj)
}

// ErrRowGone is returned when there is no row for what had to be written or waited for.
var ErrRowGone = errors.New("the row is gone")

// RetryingCriticalAnnotationUpdater writes the annotations of this package into the table, onto
// whatever version of the row is there. If it fails it tries again, five times in all, waiting
// 10 ms at first and twice as long each time.
type RetryingCriticalAnnotationUpdater[T Managed] struct {
	db    *statedb.DB
	table statedb.RWTable[T]
	clone func(T) T
}

const (
	criticalTries = 5
	criticalWait  = 10 * time.Millisecond
)

// NewRetryingCriticalAnnotationUpdater returns an updater of a table's rows. clone is as
// [reconciler.Config].Clone.
func NewRetryingCriticalAnnotationUpdater[T Managed](db *statedb.DB, table statedb.RWTable[T], clone func(T) T) *RetryingCriticalAnnotationUpdater[T] {
	return &RetryingCriticalAnnotationUpdater[T]{db, table, clone}
}

// UpdateCriticalAnnotations writes the annotations that the reconciler notes, and those that Create
// changed, on the row of the object, and nothing else if the row has been changed meanwhile. The error is [ErrRowGone] if
// there is none, at once; or that of the table after the last try.
func (u *RetryingCriticalAnnotationUpdater[T]) UpdateCriticalAnnotations(ctx context.Context, obj T) error {
	// In an update whose row nobody has changed this spares the loop a conflict.
	if reconciler.Checkpoint(ctx, obj) == nil {
		return nil
	}
	var err error
	for try := range criticalTries {
		if try > 0 {
			pause(ctx, criticalWait<<(try-1))
		}
		if err = u.write(obj); err == nil || errors.Is(err, ErrRowGone) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("annotations of %q: %w", object.KeyOf(obj).String(), err)
	}
	return nil
}

func (u *RetryingCriticalAnnotationUpdater[T]) write(obj T) error {
	wtxn := u.db.WriteTxn(u.table)
	defer wtxn.Abort()
	current, _, found := u.table.Get(wtxn, keys.Query(u.table.PrimaryIndexer(), obj))
	if !found {
		return ErrRowGone
	}
	next := u.clone(current)
	copyNotes(next, obj)
	if _, _, err := u.table.Insert(wtxn, next); err != nil {
		return err
	}
	wtxn.Commit()
	return nil
}

// pause waits for d, less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
