// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// departed is what the process remembers of rows that have left the table. What such a row was is
// not told by how its last version looks: a program may have put any other in its place. The zero
// value is empty.
type departed[T Managed] struct {
	mu sync.Mutex
	// dropped are the last versions of rows that the reconciler took out, until the loop has
	// come to that.
	dropped map[object.Key]T
	// torn are rows that were taken out by force, until their resources are gone.
	torn map[object.Key]T
	// left are the external names of resources that were left on purpose, until a row takes
	// them over. An empty name stands for any.
	left map[object.Key][]string
}

// drop remembers that the reconciler takes a version of a row out.
func (d *departed[T]) drop(last T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put(&d.dropped, object.KeyOf(last), last)
}

// wasDropped reports whether the reconciler took this version of a row out.
func (d *departed[T]) wasDropped(obj T) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, ok := d.dropped[object.KeyOf(obj)]
	return ok && last == obj
}

// tear remembers a row whose deletion goes on.
func (d *departed[T]) tear(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	put(&d.torn, object.KeyOf(obj), obj)
}

// comeBack returns the row that was torn out before a row of its key came, if that names another
// resource. Otherwise it forgets what became of rows of the key: it is the old row put back.
func (d *departed[T]) comeBack(obj T) (torn T, another bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := object.KeyOf(obj)
	if torn, ok := d.torn[key]; ok && namesAnother(obj, torn) {
		return torn, true
	}
	delete(d.dropped, key)
	delete(d.torn, key)
	return torn, false
}

// forget forgets what became of rows of a key, but not what was left.
func (d *departed[T]) forget(key object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.dropped, key)
	delete(d.torn, key)
}

// leave remembers that the resource of an object was left on purpose.
func (d *departed[T]) leave(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, name := object.KeyOf(obj), GetExternalName(obj)
	if !slices.Contains(d.left[key], name) {
		put(&d.left, key, append(d.left[key], name))
	}
}

// wasLeft reports whether the resource of an object was left on purpose.
func (d *departed[T]) wasLeft(obj T) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	names, name := d.left[object.KeyOf(obj)], GetExternalName(obj)
	return len(names) > 0 && (name == "" || slices.Contains(names, name) || slices.Contains(names, ""))
}

// takeOver forgets that the resource of an object was left.
func (d *departed[T]) takeOver(obj T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, name := object.KeyOf(obj), GetExternalName(obj)
	names := slices.DeleteFunc(d.left[key], func(left string) bool { return left == name })
	if len(names) == 0 {
		delete(d.left, key)
		return
	}
	d.left[key] = names
}

// put sets what a map has of a key. The map is made with the first.
func put[V any](m *map[object.Key]V, key object.Key, value V) {
	if *m == nil {
		*m = map[object.Key]V{}
	}
	(*m)[key] = value
}
