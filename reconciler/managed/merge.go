// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"reflect"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// bases holds for each object the version of the row with which its last pass began, so that Merge can
// tell what the pass has set. The zero value is empty.
type bases[T Managed] struct {
	mu    sync.Mutex
	byKey map[object.Key]T
}

// begin records with which version a pass begins.
func (b *bases[T]) begin(row T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	put(&b.byKey, object.KeyOf(row), row)
}

func (b *bases[T]) of(key object.Key) (row T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row, ok = b.byKey[key]
	return row, ok
}

func (b *bases[T]) forget(key object.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKey, key)
}

// Merge copies what a pass has set for the reconciler onto current, a clone of the row in the table,
// and returns current: its notes, the annotations that Create changed, its finalizer, and the
// conditions [TypeSynced] and [TypeReady]. If current has the status ID with which the pass began, so
// that the desired state is the same, it also copies the fields that the pass has changed, such as
// those that Observe has filled in. Use it as [reconciler.Config].Merge, or call it in a function that
// copies more.
func (r *Reconciler[T]) Merge(current, reconciled T) T {
	if before, ok := r.bases.of(object.KeyOf(reconciled)); ok && r.getStatus(current).ID == r.getStatus(before).ID {
		// Other reconcilers may have statuses in the field of this one's.
		after := r.setStatus(r.clone(reconciled), r.getStatus(before))
		repeatFields(reflect.ValueOf(current), reflect.ValueOf(before), reflect.ValueOf(after))
	}
	mergeAnnotations(current, reconciled)
	for _, c := range reconciled.GetConditions() {
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

// repeatFields makes the changes between two versions of a row on a clone of a third one, except for those
// in [Meta]. The values are pointers.
func repeatFields(to, before, after reflect.Value) {
	t := to.Type()
	switch {
	case t.Kind() != reflect.Pointer || t.Elem() == metaType || t.Elem() == reflect.PointerTo(metaType):
	case t.Elem().Kind() == reflect.Struct && inParts(t.Elem()):
		for i := range t.Elem().NumField() {
			repeatFields(fieldOf(to, i), fieldOf(before, i), fieldOf(after, i))
		}
	case !reflect.DeepEqual(before.Interface(), after.Interface()):
		to.Elem().Set(after.Elem())
	}
}

// inParts reports whether different writers may set different fields of a struct: it is a row or a part of
// one, and no value with fields of its own, such as a time.
func inParts(t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == metaType || f.Type == reflect.PointerTo(metaType) {
			return true
		}
		if !f.IsExported() {
			return false
		}
	}
	return true
}

// fieldOf returns a pointer to a field of a struct, also to one that is not exported.
func fieldOf(pointer reflect.Value, i int) reflect.Value {
	f := pointer.Elem().Field(i)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer())
}
