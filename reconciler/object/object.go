// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package object has the little that the adapters of reconciler ask of a row beside its
// status: a namespace, a name and annotations. A row has it by embedding [Meta].
package object

import "maps"

// Object is a row with a name and annotations. It is implemented by pointers to rows, most
// easily by embedding [Meta].
//
// A row of a table is immutable. The methods that set something are for clones only: the
// one that an operation was handed, or one that a writer made. They copy what they share
// with the row before they change it, so that a shallow clone will do.
type Object interface {
	// GetNamespace returns the namespace, empty if the rows have none.
	GetNamespace() string
	// GetName returns the name. With the namespace it tells the rows of a table apart.
	GetName() string
	// GetAnnotations returns the annotations, nil if there are none. The map is that of
	// the row and must not be changed.
	GetAnnotations() map[string]string
	// SetAnnotation sets one annotation of a clone. An empty value is a value.
	SetAnnotation(key, value string)
	// RemoveAnnotation removes one annotation of a clone; that there is none is no error.
	RemoveAnnotation(key string)
}

// Meta implements [Object] for the rows that embed it. The zero value has no name and no
// annotations, and can be used.
type Meta struct {
	// Namespace may be empty.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	// Name tells the rows of one namespace apart.
	Name string `json:"name,omitempty" yaml:"name,omitempty"`
	// Annotations are what programs note on the row. The map is shared by the versions of
	// the row: use [Meta.SetAnnotation], which copies it.
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`
}

var _ Object = (*Meta)(nil)

// GetNamespace returns the namespace, which may be empty. Safe from any goroutine.
func (m *Meta) GetNamespace() string { return m.Namespace }

// GetName returns the name. Safe from any goroutine.
func (m *Meta) GetName() string { return m.Name }

// GetAnnotations returns the annotations, nil if there are none. The map must not be
// changed. Safe from any goroutine.
func (m *Meta) GetAnnotations() map[string]string { return m.Annotations }

// SetAnnotation sets one annotation of a clone, on a copy of the map. If it has that value
// already the map stays the same.
func (m *Meta) SetAnnotation(key, value string) {
	if old, ok := m.Annotations[key]; ok && old == value {
		return
	}
	annotations := make(map[string]string, len(m.Annotations)+1)
	maps.Copy(annotations, m.Annotations)
	annotations[key] = value
	m.Annotations = annotations
}

// meta implements what SetAnnotations looks for.
func (m *Meta) meta() *Meta { return m }

// SetAnnotations sets several annotations of a clone, given as keys and values in turn. It is
// [Object.SetAnnotation] for each, but an object that embeds [Meta] has its map copied only once.
func SetAnnotations(obj Object, keysAndValues ...string) {
	embeds, ok := obj.(interface{ meta() *Meta })
	if !ok {
		for i := 0; i+1 < len(keysAndValues); i += 2 {
			obj.SetAnnotation(keysAndValues[i], keysAndValues[i+1])
		}
		return
	}
	m := embeds.meta()
	annotations := make(map[string]string, len(m.Annotations)+len(keysAndValues)/2)
	maps.Copy(annotations, m.Annotations)
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		annotations[keysAndValues[i]] = keysAndValues[i+1]
	}
	m.Annotations = annotations
}

// RemoveAnnotation removes one annotation of a clone, on a copy of the map. The map is nil
// when the last one is gone.
func (m *Meta) RemoveAnnotation(key string) {
	if _, ok := m.Annotations[key]; !ok {
		return
	}
	if len(m.Annotations) == 1 {
		m.Annotations = nil
		return
	}
	annotations := maps.Clone(m.Annotations)
	delete(annotations, key)
	m.Annotations = annotations
}

// Key is what tells the objects of a table apart.
type Key struct {
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(obj Object) Key { return Key{obj.GetNamespace(), obj.GetName()} }

// String returns "namespace/name", or the name alone if there is no namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
