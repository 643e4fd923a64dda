// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
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
	policies    policies
	past        past
	// unwritten: the table could not be told.
	unwritten bool
}

// keep remembers what is noted on an object.
func (m *memory) keep(obj Resource, unwritten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]remembered{}
	}
	m.byKey[object.KeyOf(obj)] = remembered{obj.GetAnnotations(), policiesOf(obj), obj.meta().past, unwritten}
}

// recall returns what is remembered of an object, nothing if it has neither a resource nor policies.
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
func hasNotes(obj object.Object) bool { return notesIn(obj.GetAnnotations()) }

func notesIn(annotations map[string]string) bool {
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

// hasPolicies reports whether an object says anything of what may be done for it.
func hasPolicies(obj Resource) bool {
	for _, key := range policyKeys {
		if _, ok := obj.GetAnnotations()[key]; ok {
			return true
		}
	}
	return !policiesOf(obj).same(policies{})
}

// policyKeys are the annotations that say what may be done for an object.
var policyKeys = [...]string{AnnotationPaused, AnnotationManagementPolicies, AnnotationDeletionPolicy}

// is reports whether an object says what is remembered in the very same maps, as it mostly does:
// nothing was noted since.
func (m remembered) is(obj Resource) bool {
	return !m.unwritten && m.annotations != nil && sameMap(m.annotations, obj.GetAnnotations()) &&
		m.past == obj.meta().past && m.policies.same(policiesOf(obj))
}

// addTo notes on an object what is remembered and it does not say. It reports whether that was
// anything about its resource. From then on the object's own insert is the one that counts.
func (m remembered) addTo(obj Resource) (added bool) {
	past := &obj.meta().past
	said := past.inserted
	if said == nil {
		said = insertionOf(obj)
		m.addPoliciesTo(obj)
	}
	added = m.addNotesTo(obj, past.inserted == nil)
	past.inserted = said
	return added
}

// addNotesTo notes on an object what is remembered of its resource and it does not say, or says less
// recently. An object that names another resource is about that. inserted: it is a plain insert,
// and what that says of the annotations of creates otherwise than the one before stays.
func (m remembered) addNotesTo(obj Resource, inserted bool) (added bool) {
	is, was := obj.GetAnnotations(), m.annotations
	if !notesIn(was) {
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
	return copyCreated(obj, was, func(key string) bool {
		value, has := is[key]
		return inserted && has && !m.past.inserted.has(key, value)
	}) || added
}

// addPoliciesTo puts onto a plain insert the policies that others have set on the row that it took
// the place of, unless it has some of its own.
func (m remembered) addPoliciesTo(obj Resource) {
	for _, key := range policyKeys {
		value, was := m.annotations[key]
		if _, own := obj.GetAnnotations()[key]; was && !own && !m.past.inserted.has(key, value) {
			obj.SetAnnotation(key, value)
		}
	}
	to, before := obj.meta(), m.past.inserted.typed()
	if len(to.ManagementPolicies) == 0 && !slices.Equal(m.policies.management, before.management) {
		to.ManagementPolicies = m.policies.management
	}
	if to.DeletionPolicy == "" && m.policies.deletion != before.deletion {
		to.DeletionPolicy = m.policies.deletion
	}
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
