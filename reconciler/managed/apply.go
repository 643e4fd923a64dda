// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Writer writes rows for a managed reconciler as they have to be written: with the status that
// asks for a pass, and without losing what the reconciler has noted. Its methods may be called
// from any goroutine with a write transaction of the table, and do not commit it.
type Writer[T Managed] struct {
	// Table, Clone, SetStatus and GetStatus are those of [reconciler.Config]. Required.
	Table     statedb.RWTable[T]
	Clone     func(T) T
	SetStatus func(T, reconciler.Status) T
	GetStatus func(T) reconciler.Status
}

// NewWriter returns a writer of the rows of a configuration.
func NewWriter[T Managed](cfg reconciler.Config[T]) Writer[T] {
	return Writer[T]{cfg.Table, cfg.Clone, cfg.SetStatus, cfg.GetStatus}
}

// ErrTerminating is returned for an object whose deletion was asked for: it has to be gone before
// one with its key can be wanted.
var ErrTerminating = errors.New("the object is being deleted")

// Apply makes the table want an object, which it does not change. It keeps nothing of it that may be
// changed afterwards, but for what slices and pointers point to and Clone does not copy. It is for programs that read what they desire from somewhere again and again.
//
// It sets what the program sets, takes back what the program set with the last Apply and does not
// set now, and leaves everything else alone: what a client observed, what was filled in, what
// others wrote. This goes by the exported fields of the row and, for maps and annotations, by
// their keys. A zero value means not set, so Apply cannot make a field zero that it did not set
// before; use [Writer.Edit] for that. In detail:
//   - The exported fields of embedded structs count as fields of the row. An embedded pointer is
//     one field.
//   - Pointers, slices, arrays, interfaces and other structs are replaced as a whole. A pointer to
//     a zero value and an empty slice that is not nil are set.
//   - Unexported fields are left alone.
//   - Statuses are left alone, unless the row changes: then that of another reconciler is written,
//     if the program sets it, and all of a [reconciler.StatusSet] become Pending.
//   - Of [Meta], annotations and policies are applied. What the reconciler or a create has noted in
//     an annotation is changed only when desired says something else than last time, and not
//     removed by leaving it out.
//
// A row has one program that applies it: what another one applied is taken for its own.
//
// A new row is inserted as it is, with generation 1 unless it has one. If nothing changes, no pass
// is asked for; else the row's status becomes Pending, and the generation grows by one unless only
// annotations changed. changed reports whether a pass was asked for. The error is [ErrTerminating]
// if the deletion of the object was asked for, or that of the table.
func (w Writer[T]) Apply(wtxn statedb.WriteTxn, desired T) (changed bool, err error) {
	desired = w.SetStatus(w.Clone(desired), reconciler.Status{})
	stored, _, found := w.get(wtxn, desired)
	if !found {
		return true, w.insert(wtxn, desired)
	}
	if WasDeleted(stored) {
		return false, fmt.Errorf("apply %q: %w", object.KeyOf(stored).String(), ErrTerminating)
	}
	next := w.Clone(stored)
	next.meta().past.note(stored)
	a := newApplying(&next, &desired)
	fields, annotations, claims := a.applyFields(), a.applyAnnotations(), a.claim()
	if fields {
		next.SetGeneration(stored.GetGeneration() + 1)
	}
	if fields || annotations {
		a.applyStatuses()
		return true, w.put(wtxn, w.SetStatus(next, reconciler.StatusPending()))
	}
	if claims {
		err = w.put(wtxn, next)
	}
	return false, err
}

// insert inserts a row that Apply finds missing.
func (w Writer[T]) insert(wtxn statedb.WriteTxn, desired T) error {
	next := w.Clone(desired)
	next.SetGeneration(max(desired.GetGeneration(), 1))
	next.meta().past = past{unseen: applyOnly}
	// The program may go on to change its own.
	next.meta().Annotations = maps.Clone(desired.GetAnnotations())
	a := newApplying(&next, &desired)
	a.applyFields()
	a.claim()
	return w.put(wtxn, w.SetStatus(next, reconciler.StatusPending()))
}

// Delete asks for the deletion of the object with the key of obj: the row gets a deletion time, a
// generation that is one more, and status Pending, and goes when the external resource is gone.
// That holds for a row without finalizers, too: an earlier process may have created its
// resource. found is false, and nothing is written, if there is no such row. To ask again writes
// nothing. The errors are those of the table.
func (w Writer[T]) Delete(wtxn statedb.WriteTxn, obj T) (found bool, err error) {
	stored, _, found := w.get(wtxn, obj)
	if !found || WasDeleted(stored) {
		return found, nil
	}
	return w.Edit(wtxn, obj, func(next T) {
		next.SetDeletionTime(time.Now())
		next.SetGeneration(next.GetGeneration() + 1)
	})
}

// Edit changes the row with the key of obj: change is called with a clone, which is written with
// status Pending. It is for what a person notes on a row, with [SetPaused], [RequestReconcile] or
// [DecideCreate]. found is false, and nothing is written, if there is no such row. The errors are
// those of the table.
func (w Writer[T]) Edit(wtxn statedb.WriteTxn, obj T, change func(next T)) (found bool, err error) {
	stored, _, found := w.get(wtxn, obj)
	if !found {
		return false, nil
	}
	next := w.Clone(stored)
	next.meta().past.note(stored)
	change(next)
	return true, w.put(wtxn, w.SetStatus(next, reconciler.StatusPending()))
}

func (w Writer[T]) get(txn statedb.ReadTxn, obj T) (T, statedb.Revision, bool) {
	return w.Table.Get(txn, keys.Query(w.Table.PrimaryIndexer(), obj))
}

func (w Writer[T]) put(wtxn statedb.WriteTxn, next T) error {
	if _, _, err := w.Table.Insert(wtxn, next); err != nil {
		return fmt.Errorf("write %q: %w", object.KeyOf(next).String(), err)
	}
	return nil
}

// replaceAnnotations makes the annotations of a clone those of another object.
func replaceAnnotations(to, from object.Object) {
	for key := range to.GetAnnotations() {
		if _, has := from.GetAnnotations()[key]; !has {
			to.RemoveAnnotation(key)
		}
	}
	for key, value := range from.GetAnnotations() {
		to.SetAnnotation(key, value)
	}
}
