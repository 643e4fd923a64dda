// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Writer writes rows of a managed reconciler: with the status that asks for a pass, and without losing
// the reconciler's notes. Its methods may be called from any goroutine that has a write transaction of
// the table. They do not commit it.
type Writer[T Managed] struct {
	// Table, Clone, SetStatus and GetStatus are those of [reconciler.Config]. Required.
	Table     statedb.RWTable[T]
	Clone     func(T) T
	SetStatus func(T, reconciler.Status) T
	GetStatus func(T) reconciler.Status
}

// NewWriter returns a writer for the table of a configuration, which has to be a [statedb.RWTable].
func NewWriter[T Managed](cfg reconciler.Config[T]) Writer[T] {
	return Writer[T]{writable(cfg), cfg.Clone, cfg.SetStatus, cfg.GetStatus}
}

// ErrTerminating is returned for an object whose deletion was requested. It can be applied again when
// it is gone.
var ErrTerminating = errors.New("the object is being deleted")

// Apply writes an object as desired state. It is for programs that read their desired state again and
// again. It does not change desired. The caller may change desired afterwards, except what its slices
// and pointers point to if Clone does not copy that.
//
// Apply sets what the program sets. It takes back what the program set in the last Apply and does not
// set now. It leaves everything else alone: observed values, values filled in later, values of other
// writers. It compares the exported fields of the row and, for maps and annotations, their keys. A zero
// value means "not set", so Apply cannot set a field to zero that it did not set before: use
// [Writer.Edit] for that. In detail:
//   - The exported fields of embedded structs count as fields of the row. An embedded pointer is one
//     field.
//   - Pointers, slices, arrays, interfaces and other structs are replaced as a whole. A pointer to a
//     zero value and an empty slice that is not nil are set.
//   - Unexported fields are left alone.
//   - Statuses are left alone unless the row changes. Then the status of another reconciler is written
//     if the program sets it, and all statuses of a [reconciler.StatusSet] become Pending.
//   - Of [Meta], annotations and policies are applied. An annotation that the reconciler or a create
//     has written changes only if desired has another value than last time. Leaving it out does not
//     remove it.
//
// Only one program may apply a row: what another program applied is treated as its own.
//
// A new row is inserted as it is; its generation is 1 unless it is set. If an existing row does not
// change, no pass is requested. If it changes, its status becomes Pending, and its generation grows by
// one unless only annotations changed. changed reports whether a pass was requested. The error is
// [ErrTerminating] if the deletion of the object was requested, or an error of the table.
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

// insert inserts a row that Apply did not find.
func (w Writer[T]) insert(wtxn statedb.WriteTxn, desired T) error {
	next := w.Clone(desired)
	next.SetGeneration(max(desired.GetGeneration(), 1))
	next.meta().past = past{unseen: applyOnly}
	// The program may change its own map afterwards.
	next.meta().Annotations = maps.Clone(desired.GetAnnotations())
	a := newApplying(&next, &desired)
	a.applyFields()
	a.claim()
	return w.put(wtxn, w.SetStatus(next, reconciler.StatusPending()))
}

// Delete requests the deletion of the object with the key of obj. The row gets a deletion time, the
// next generation and status Pending. It is removed when the external resource is gone. This holds for
// a row without finalizers too, because an earlier process may have created its resource. found is
// false, and nothing is written, if there is no such row. If the deletion was requested before, nothing
// is written. The errors are those of the table.
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

// Edit changes the row with the key of obj: it calls change with a clone, and writes that with status
// Pending. Use it with [SetPaused], [RequestReconcile] or [DecideCreate]. found is false, and nothing
// is written, if there is no such row. The errors are those of the table.
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
	return rowOf(w.Table, txn, obj)
}

func (w Writer[T]) put(wtxn statedb.WriteTxn, next T) error {
	_, err := rows.KeyOf(w.Table.PrimaryIndexer(), next)
	if err == nil {
		_, _, err = w.Table.Insert(wtxn, next)
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", object.KeyOf(next).String(), err)
	}
	return nil
}

// replaceAnnotations gives a clone the annotations of another object.
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
