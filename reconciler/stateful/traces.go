// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/statekeel/statekeel/reconciler/object"
)

// traces has the traces of all objects.
type traces[State any] struct {
	mu    sync.Mutex
	byKey map[object.Key]*trace[State]
	// epoch distinguishes these traces from those of other processes and reconcilers. epochKey is
	// the key of its annotation. Both are set once, with the first trace.
	epoch, epochKey string
}

// of returns the trace of an object, and makes it if there is none. annotation is the key of the
// reconciler's annotation, always the same.
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

// stamped reports whether the annotation of an object was written by the reconciler of these
// traces. The object must have a trace.
func (m *traces[State]) stamped(obj Object) bool {
	return obj.GetAnnotations()[m.epochKey] == m.epoch
}

// stamp marks the annotation of an object as written by the reconciler of these traces, and reports
// whether it was not marked before. The object must have a trace.
func (m *traces[State]) stamp(obj Object) (news bool) {
	if m.stamped(obj) {
		return false
	}
	obj.SetAnnotation(m.epochKey, m.epoch)
	return true
}

// annotate sets the annotation of an object and stamps it.
func (m *traces[State]) annotate(obj Object, annotation, text string) {
	if m.stamped(obj) {
		obj.SetAnnotation(annotation, text)
		return
	}
	object.SetAnnotations(obj, annotation, text, m.epochKey, m.epoch)
}

// remove forgets an object of which the target has nothing left. It keeps an empty trace if the row
// has had a foreign annotation: a clone of that row may be inserted again, and its annotation must
// not be trusted then.
func (m *traces[State]) remove(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.byKey[key]; t != nil && t.foreign {
		m.byKey[key] = &trace[State]{known: true, foreign: true}
		return
	}
	delete(m.byKey, key)
}

// epochKey returns the key of the epoch annotation.
func epochKey(annotation string) string { return annotation + ".epoch" }
