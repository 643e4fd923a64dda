// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package object has the interface of rows that the adapters of package reconciler use beside the
// status: a namespace, a name and annotations. A row implements it by embedding [Meta].
package object

import "maps"

// Object is a row with a name and annotations. Pointers to rows implement it, usually by embedding
// [Meta].
//
// A row of a table is immutable. Call the setters only on clones: the one that an operation was
// given, or one that a writer made. They copy shared data before they change it, so a shallow clone
// is enough.
type Object interface {
	// GetNamespace returns the namespace, or the empty text if rows have none.
	GetNamespace() string
	// GetName returns the name. Namespace and name together identify a row of the table.
	GetName() string
	// GetAnnotations returns the annotations, or nil if there are none. The map belongs to the row
	// and must not be changed.
	GetAnnotations() map[string]string
	// SetAnnotation sets one annotation of a clone. The value may be empty.
	SetAnnotation(key, value string)
	// RemoveAnnotation removes one annotation of a clone. It does nothing if there is none.
	RemoveAnnotation(key string)
}

// Meta implements [Object] for the rows that embed it. The zero value is ready to use: it has no
// name and no annotations.
type Meta struct {
	// Namespace may be empty.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	// Name identifies the row in its namespace.
	Name string `json:"name,omitempty" yaml:"name,omitempty"`
	// Annotations are texts that programs attach to the row. The versions of a row share the map:
	// change it with [Meta.SetAnnotation], which copies it.
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`
}

var _ Object = (*Meta)(nil)

// GetNamespace returns the namespace, which may be empty.
func (m *Meta) GetNamespace() string { return m.Namespace }

// GetName returns the name.
func (m *Meta) GetName() string { return m.Name }

// GetAnnotations returns the annotations, or nil if there are none. The map must not be changed.
func (m *Meta) GetAnnotations() map[string]string { return m.Annotations }

// SetAnnotation sets one annotation of a clone, in a copy of the map. It does not copy if the
// annotation has that value already.
func (m *Meta) SetAnnotation(key, value string) {
	if old, ok := m.Annotations[key]; ok && old == value {
		return
	}
	annotations := make(map[string]string, len(m.Annotations)+1)
	maps.Copy(annotations, m.Annotations)
	annotations[key] = value
	m.Annotations = annotations
}

// meta implements the interface that SetAnnotations checks for.
func (m *Meta) meta() *Meta { return m }

// SetAnnotations sets several annotations of a clone, given as keys and values in turn. It is
// equivalent to calls of [Object.SetAnnotation], but copies the map of an object that embeds [Meta]
// only once.
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

// RemoveAnnotation removes one annotation of a clone, in a copy of the map. The map becomes nil
// when the last one is removed.
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

// Key identifies an object of a table.
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
