// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"reflect"
	"time"

	"github.com/cilium/statedb"

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
	// Keep copies from the row in the table onto a clone of the desired one what the client
	// has set on it, and nobody wishes: what was observed, what was filled in. It is called
	// after the reconciler's own notes have been copied. nil means that there is no such
	// thing: every other difference is a wish.
	Keep func(desired, stored T)
}

// NewWriter returns a writer of the rows of a configuration. keep is [Writer].Keep, and may be
// nil.
func NewWriter[T Managed](cfg reconciler.Config[T], keep func(desired, stored T)) Writer[T] {
	return Writer[T]{cfg.Table, cfg.Clone, cfg.SetStatus, cfg.GetStatus, keep}
}

// Apply makes the table want an object, which it does not change or keep: it is for programs that
// read what they desire from somewhere again and again. A new row is inserted with generation 1.
// Of a row that is there the finalizers, the conditions, the deletion time, and the annotations
// of [AnnotationPrefix] that desired does not have are kept; so an annotation of that prefix is
// taken back by [Writer.Edit], not by leaving it out. If nothing differs then, nothing is
// written; else the row's status becomes Pending, and the generation grows by one, unless only
// annotations differ. It returns whether it wrote. The errors are those of the table.
func (w Writer[T]) Apply(wtxn statedb.WriteTxn, desired T) (changed bool, err error) {
	next := w.Clone(desired)
	stored, _, found := w.get(wtxn, desired)
	if !found {
		next.SetGeneration(max(desired.GetGeneration(), 1))
		return true, w.put(wtxn, next)
	}
	adopt(next, stored)
	if w.Keep != nil {
		w.Keep(next, stored)
	}
	next = w.SetStatus(next, w.GetStatus(stored))
	if reflect.DeepEqual(next, stored) {
		return false, nil
	}
	if !w.sameSpec(next, stored) {
		next.SetGeneration(stored.GetGeneration() + 1)
	}
	return true, w.put(wtxn, next)
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
	change(next)
	return true, w.put(wtxn, next)
}

func (w Writer[T]) get(txn statedb.ReadTxn, obj T) (T, statedb.Revision, bool) {
	return w.Table.Get(txn, w.Table.PrimaryIndexer().QueryFromObject(obj))
}

func (w Writer[T]) put(wtxn statedb.WriteTxn, next T) error {
	if _, _, err := w.Table.Insert(wtxn, w.SetStatus(next, reconciler.StatusPending())); err != nil {
		return fmt.Errorf("write %q: %w", object.KeyOf(next).String(), err)
	}
	return nil
}

// sameSpec reports whether two rows differ in nothing but annotations.
func (w Writer[T]) sameSpec(next, stored T) bool {
	a := w.Clone(next)
	replaceAnnotations(a, stored)
	return reflect.DeepEqual(a, stored)
}

// adopt copies onto a desired row what the one in the table has from the reconciler and from
// those who asked something of it.
func adopt(next, stored Resource) {
	next.SetFinalizers(stored.GetFinalizers())
	next.SetDeletionTime(stored.GetDeletionTime())
	next.SetGeneration(stored.GetGeneration())
	for _, c := range next.GetConditions() {
		next.RemoveCondition(c.Type)
	}
	next.SetConditions(stored.GetConditions()...)
	for key, value := range stored.GetAnnotations() {
		if _, has := next.GetAnnotations()[key]; !has && isOurs(key) {
			next.SetAnnotation(key, value)
		}
	}
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
