// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// departed remembers rows that have left the table. The last version of a row does not tell whose
// resource it had: the program may have replaced it by another version just before. The zero value is
// empty.
type departed[T Managed] struct {
	mu sync.Mutex
	// dropped holds the last versions of rows that the reconciler removed itself, until the loop calls
	// Delete for them.
	dropped map[object.Key]T
	// removed holds rows that were removed without Writer.Delete, and those that sweeps have listed,
	// with the conditions of their last passes, until their resources are gone.
	removed map[object.Key]removed[T]
	// left holds the external names of resources that were left in place, until a row takes them over.
	// An empty name stands for every name.
	left map[object.Key][]string
}

// removed is a removed row whose deletion is not finished. listed is that of its pass.
type removed[T Managed] struct {
	row    T
	listed bool
}

// drop records that the reconciler removes this version of a row.
func (d *departed[T]) drop(last T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put(&d.dropped, object.KeyOf(last), last)
}

// wasDropped reports whether the reconciler removed this version of a row.
func (d *departed[T]) wasDropped(obj T) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, ok := d.dropped[object.KeyOf(obj)]
	return ok && last == obj
}

// addRemoved records a removed row whose deletion is not finished.
func (d *departed[T]) addRemoved(obj T, listed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put(&d.removed, object.KeyOf(obj), removed[T]{obj, listed})
}

// removedBefore returns the removed row of a key whose deletion is not finished; false if there is none.
func (d *departed[T]) removedBefore(key object.Key) (before removed[T], ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, ok = d.removed[key]
	return before, ok
}

// forget drops the records of removed rows of a key, but keeps the names of resources left in place.
func (d *departed[T]) forget(key object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.dropped, key)
	delete(d.removed, key)
}

// leave records that the resource of an object was left in place.
func (d *departed[T]) leave(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, name := object.KeyOf(obj), GetExternalName(obj)
	if !slices.Contains(d.left[key], name) {
		put(&d.left, key, append(d.left[key], name))
	}
}

// wasLeft reports whether the resource of an object was left in place.
func (d *departed[T]) wasLeft(obj T) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, name := d.left[object.KeyOf(obj)], GetExternalName(obj)
	return len(names) > 0 && (name == "" || slices.Contains(names, name) || slices.Contains(names, ""))
}

// takeOver drops the record that the resource of an object was left in place.
func (d *departed[T]) takeOver(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		return
	}
	key, name := object.KeyOf(obj), GetExternalName(obj)
	names := slices.DeleteFunc(d.left[key], func(left string) bool { return left == name })
	if len(names) == 0 {
		delete(d.left, key)
		return
	}
	d.left[key] = names
}

// put sets a value in a map, and makes the map if it is nil.
func put[V any](m *map[object.Key]V, key object.Key, value V) {
	if *m == nil {
		*m = map[object.Key]V{}
	}
	(*m)[key] = value
}
