// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"reflect"

	"github.com/statekeel/statekeel/reconciler/object"
)

// Merge copies what a pass has set for the reconciler onto current, a clone of the row in the table,
// and returns current: its notes, the annotations that Create changed, its finalizer, and the
// conditions [TypeSynced] and [TypeReady]. If current has the status ID with which the pass began, so
// that the desired state is the same, it also copies the fields that the pass has changed, such as
// those that Observe has filled in. Use it as [reconciler.Config].Merge, or call it in a function that
// copies more.
func (r *Reconciler[T]) Merge(current, reconciled T) T {
	var none T
	before := r.memory.get(object.KeyOf(reconciled)).base
	same := before != none && r.getStatus(current).ID == r.getStatus(before).ID
	if same {
		// Other reconcilers may have statuses in the field of this one's.
		after := r.setStatus(r.clone(reconciled), r.getStatus(before))
		if to := reflect.ValueOf(current); to.Kind() == reflect.Pointer {
			repeatFields(to.Elem(), reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
		}
	}
	mergeAnnotations(current, reconciled)
	for _, c := range reconciled.meta().Conditions {
		if !same && c.Type == TypeReady && conditionOf(current, TypeReady).ObservedGeneration == 0 {
			c.ObservedGeneration = 0 // current may be another row with the same key, and with generations of its own
		}
		if c.Type == TypeSynced || c.Type == TypeReady {
			current.SetConditions(c)
		}
	}
	if hasFinalizer(reconciled, r.finalizerName) {
		addFinalizer(current, r.finalizerName)
	} else {
		removeFinalizer(current, r.finalizerName)
	}
	return current
}

var metaType = reflect.TypeFor[Meta]()

// repeatFields makes the changes between two versions of a struct on a third one, except for those in [Meta].
// Writers may set different fields of a struct in them, but not of a value such as a time, which exports none.
func repeatFields(to, before, after reflect.Value) {
	for i := range to.NumField() {
		of := to.Type().Field(i)
		field := func(row reflect.Value) reflect.Value {
			// Fields that are not exported are read and set, too.
			return reflect.NewAt(of.Type, row.Field(i).Addr().UnsafePointer()).Elem()
		}
		switch {
		case of.Type == metaType || of.Type == reflect.PointerTo(metaType):
		case of.Type.Kind() == reflect.Struct && of.Type.NumField() > 0 && of.Type.Field(0).IsExported():
			repeatFields(field(to), field(before), field(after))
		case !reflect.DeepEqual(field(before).Interface(), field(after).Interface()):
			field(to).Set(field(after))
		}
	}
}
