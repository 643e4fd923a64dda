// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Writer writes rows of a managed reconciler as desired state: onto the row in the table, so that the
// reconciler's notes stay, and with the status that asks for a pass. Its methods may be called from any
// goroutine that has a write transaction of the table. They do not commit it.
//
// A plain Insert replaces the whole row, with its policies and its pause; the next pass puts back the notes and the
// annotations that Create has set. A pass goes on while its row is written, unless the object is being deleted now, is
// paused, has other policies or names another resource; the next pass follows at once. If a person names a resource while
// Create runs, the row keeps that name, and the event ExternalNameChanged reports the created resource.
type Writer[T Managed] struct {
	// Table, Clone and SetStatus are those of [reconciler.Config]. Required: without them each method returns an
	// error that names what is missing.
	Table     statedb.RWTable[T]
	Clone     func(T) T
	SetStatus func(T, reconciler.Status) T
	// Pending makes all statuses of a clone Pending. It is called for each row that is written. Set it if
	// the rows have statuses of several reconcilers. nil means that SetStatus does it, for one status.
	Pending func(T) T
}

// NewWriter returns a writer for the table of a configuration, which has to be a [statedb.RWTable].
func NewWriter[T Managed](cfg reconciler.Config[T]) Writer[T] {
	return Writer[T]{Table: writable(cfg), Clone: cfg.Clone, SetStatus: cfg.SetStatus}
}

// check returns an error that names the required fields that are nil.
func (w *Writer[T]) check() error {
	var errs []error
	if w.Table == nil {
		errs = append(errs, errors.New("Writer.Table is nil: it has to be a statedb.RWTable"))
	}
	if w.Clone == nil {
		errs = append(errs, errors.New("Writer.Clone is nil"))
	}
	if w.SetStatus == nil {
		errs = append(errs, errors.New("Writer.SetStatus is nil"))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("managed: %w", errors.Join(errs...))
}

// ErrTerminating is returned for an object whose deletion was requested. It can be applied again when
// it is gone.
var ErrTerminating = errors.New("the object is being deleted")

// Apply writes the desired state of the object with the key of obj, again and again if the program
// likes. It calls set, never nil, with a clone of the row in the table, or of obj if there is no row.
// set sets the fields, policies and annotations that the program decides, also those that must be
// empty, and leaves the rest alone: what the reconciler, Observe and other writers have set. Notes on creates stay.
//
// If set changes nothing, nothing is written. Otherwise the status becomes Pending, and the generation
// grows by one unless only annotations, finalizers or conditions changed. A new row has generation 1
// unless obj has a higher one. Rows are compared by [reflect.DeepEqual]. changed reports whether a pass was
// requested. The error is [ErrTerminating] if the deletion of the object was requested, or an error of
// the table.
func (w Writer[T]) Apply(wtxn statedb.WriteTxn, obj T, set func(row T)) (changed bool, err error) {
	if err := w.check(); err != nil {
		return false, err
	}
	stored, _, found := rowOf(w.Table, wtxn, obj)
	if !found {
		next := w.Clone(obj)
		// The program may change its own map afterwards.
		next.meta().Annotations, next.meta().lineage = maps.Clone(obj.GetAnnotations()), lineage{}
		set(next)
		next.meta().Generation = max(next.meta().Generation, 1)
		return true, w.put(wtxn, next)
	}
	if WasDeleted(stored) {
		return false, fmt.Errorf("apply %q: %w", object.KeyOf(stored).String(), ErrTerminating)
	}
	next := w.Clone(stored)
	set(next)
	(&record{annotations: stored.GetAnnotations()}).addTo(next)
	if reflect.DeepEqual(next, stored) {
		return false, nil
	}
	return true, w.replace(wtxn, stored, next)
}

// Delete requests the deletion of the object with the key of obj. The row gets a deletion time, the
// next generation and status Pending. It is removed when the external resource is gone. This holds for
// a row without finalizers too, because an earlier process may have created its resource. found is
// false, and nothing is written, if there is no such row. If the deletion was requested before, nothing
// is written. The errors are those of the table.
func (w Writer[T]) Delete(wtxn statedb.WriteTxn, obj T) (found bool, err error) {
	if err := w.check(); err != nil {
		return false, err
	}
	stored, _, found := rowOf(w.Table, wtxn, obj)
	if !found || WasDeleted(stored) {
		return found, nil
	}
	next := w.Clone(stored)
	next.meta().DeletionTime = time.Now()
	next.meta().Generation = next.meta().Generation + 1
	return true, w.put(wtxn, next)
}

// Edit changes the row with the key of obj: it calls change with a clone, and writes that with status
// Pending, and with the next generation if [Writer.Apply] would do so. Use it with [SetPaused],
// [RequestReconcile] or [DecideCreate]. found is false, and nothing is written, if there is no such row.
// The errors are those of the table.
func (w Writer[T]) Edit(wtxn statedb.WriteTxn, obj T, change func(next T)) (found bool, err error) {
	if err := w.check(); err != nil {
		return false, err
	}
	stored, _, found := rowOf(w.Table, wtxn, obj)
	if !found {
		return false, nil
	}
	next := w.Clone(stored)
	change(next)
	return true, w.replace(wtxn, stored, next)
}

// replace writes a row in place of another one. It raises the generation if a field or a policy differs.
func (w Writer[T]) replace(wtxn statedb.WriteTxn, stored, next T) error {
	was, is := w.Clone(stored), next.meta()
	policies := is.DeletionPolicy == was.meta().DeletionPolicy &&
		slices.Equal(is.ManagementPolicies, was.meta().ManagementPolicies)
	if *was.meta() = *is; !policies || !reflect.DeepEqual(next, was) {
		next.meta().Generation = max(is.Generation, stored.meta().Generation+1)
	}
	return w.put(wtxn, next)
}

// put writes a row that asks for a pass.
func (w Writer[T]) put(wtxn statedb.WriteTxn, next T) error {
	next = w.SetStatus(next, reconciler.StatusPending())
	if w.Pending != nil {
		next = w.Pending(next)
	}
	_, err := rows.KeyOf(w.Table.PrimaryIndexer(), next)
	if err == nil {
		_, _, err = w.Table.Insert(wtxn, next)
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", object.KeyOf(next).String(), err)
	}
	return nil
}
