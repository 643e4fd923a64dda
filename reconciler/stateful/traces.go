// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// traces are those of all objects.
type traces[State any] struct {
	mu    sync.Mutex
	byKey map[object.Key]*trace[State]
	// epoch tells these traces from those of other processes and reconcilers, and epochKey is the
	// annotation that it is in. They are set once, with the first trace.
	epoch, epochKey string
}

// of returns the trace of an object, which is made if there is none. annotation is the key of that
// of the reconciler, always the same.
func (m *traces[State]) of(key object.Key, annotation string) *trace[State] {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.byKey[key]
	if t == nil {
		if m.byKey == nil {
			m.byKey = map[object.Key]*trace[State]{}
			m.epoch, m.epochKey = strconv.FormatUint(rand.Uint64(), 36), epochKey(annotation)
		}
		t = &trace[State]{}
		m.byKey[key] = t
	}
	return t
}

// stamped reports whether the annotation of an object, which has a trace, was written by the
// reconciler of these traces.
func (m *traces[State]) stamped(obj Object) bool {
	return obj.GetAnnotations()[m.epochKey] == m.epoch
}

// stamp notes on an object, which has a trace, that its annotation was written by the reconciler
// of these traces, and reports whether that is news.
func (m *traces[State]) stamp(obj Object) (news bool) {
	if m.stamped(obj) {
		return false
	}
	obj.SetAnnotation(m.epochKey, m.epoch)
	return true
}

// annotate sets the annotation of an object, and stamps it.
func (m *traces[State]) annotate(obj Object, annotation, text string) {
	if m.stamped(obj) {
		obj.SetAnnotation(annotation, text)
		return
	}
	object.SetAnnotations(obj, annotation, text, m.epochKey, m.epoch)
}

// remove is for an object of which the target has nothing any more. It is forgotten, unless its row
// could be inserted again with an annotation that these traces do not know for their own.
func (m *traces[State]) remove(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.byKey[key]; t != nil && t.foreign {
		m.byKey[key] = &trace[State]{known: true, foreign: true}
		return
	}
	delete(m.byKey, key)
}

// epochKey returns the key of the annotation that says which traces belong to another one.
func epochKey(annotation string) string { return annotation + ".epoch" }
