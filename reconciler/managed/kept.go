// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// memory is what was noted on each object last, for as long as the program runs: a row may be
// replaced by one without the notes, or be gone when there is something to note. The maps are
// those of the rows. The zero value is empty.
type memory struct {
	mu    sync.Mutex
	byKey map[object.Key]remembered
}

// remembered is what is remembered of one object.
type remembered struct {
	annotations map[string]string
	// unwritten: the table could not be told.
	unwritten bool
}

// keep remembers what is noted on an object.
func (m *memory) keep(obj object.Object, unwritten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]remembered{}
	}
	m.byKey[object.KeyOf(obj)] = remembered{obj.GetAnnotations(), unwritten}
}

// recall returns what is remembered of an object, nothing if it has no resource.
func (m *memory) recall(key object.Key) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key]
}

func (m *memory) forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// hasNotes reports whether an object says anything of a resource.
func hasNotes(obj object.Object) bool {
	annotations := obj.GetAnnotations()
	_, named := annotations[AnnotationExternalName]
	_, begun := annotations[AnnotationCreatePending]
	return named || begun
}

// createNoted reports whether an object says anything of a create.
func createNoted(obj object.Object) bool {
	annotations := obj.GetAnnotations()
	for _, key := range createNotes {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// createNotes are the annotations that say when there was a create, and what came of it.
var createNotes = [...]string{AnnotationCreatePending, AnnotationCreateSucceeded, AnnotationCreateFailed}

// is reports whether what is remembered are the very annotations of an object, as they mostly
// are: nothing was noted since.
func (m remembered) is(obj object.Object) bool {
	return !m.unwritten && m.annotations != nil && sameMap(m.annotations, obj.GetAnnotations())
}

// addTo notes on an object what is remembered and it does not say, or says less recently. It
// reports whether that was anything. An object that names another resource is about that.
func (m remembered) addTo(obj object.Object) (added bool) {
	is, was := obj.GetAnnotations(), m.annotations
	if was == nil {
		return false
	}
	name := was[AnnotationExternalName]
	if is[AnnotationExternalName] != "" && name != "" && is[AnnotationExternalName] != name {
		return false
	}
	if is[AnnotationExternalName] == "" && name != "" {
		SetExternalName(obj, name)
		added = true
	}
	for _, key := range createNotes {
		if was[key] != is[key] && parsed(was[key]).After(parsed(is[key])) {
			obj.SetAnnotation(key, was[key])
			added = true
		}
	}
	return added
}

// parsed returns the time that a text says, zero if it says none.
func parsed(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
