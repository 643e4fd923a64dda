// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// memory holds the latest notes and policies of each object for as long as the program runs: a program
// may replace a row by one without the notes, and a row may be gone when there is something to note.
// The maps are shared with the rows. The zero value is empty.
type memory struct {
	mu    sync.Mutex
	byKey map[object.Key]*remembered
}

// remembered is what memory holds of one object.
type remembered struct {
	annotations map[string]string
	policies    policies
	past        past
	// unwritten reports that the table could not be written.
	unwritten bool
}

// keep remembers the notes and policies of an object.
func (m *memory) keep(obj Resource, unwritten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[object.Key]*remembered{}
	}
	m.byKey[object.KeyOf(obj)] = &remembered{obj.GetAnnotations(), policiesOf(obj), obj.meta().past, unwritten}
}

// recall returns what is remembered of an object, and an empty record if nothing is. The result must
// not be changed.
func (m *memory) recall(key object.Key) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept := m.byKey[key]; kept != nil {
		return kept
	}
	return &nothing
}

var nothing remembered

func (m *memory) forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// hasNotes reports whether an object has an external name or a pending create.
func hasNotes(obj object.Object) bool { return notesIn(obj.GetAnnotations()) }

func notesIn(annotations map[string]string) bool {
	_, named := annotations[AnnotationExternalName]
	_, begun := annotations[annotationCreatePending]
	return named || begun
}

// createNoted reports whether an object has a note about a create.
func createNoted(obj object.Object) bool {
	annotations := obj.GetAnnotations()
	for _, key := range createNotes {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// createNotes are the annotations with the times and results of creates.
var createNotes = [...]string{annotationCreatePending, annotationCreateSucceeded, annotationCreateFailed}

// hasPolicies reports whether an object has policies of its own, or is paused.
func hasPolicies(obj Resource) bool {
	for _, key := range policyKeys {
		if _, ok := obj.GetAnnotations()[key]; ok {
			return true
		}
	}
	return !policiesOf(obj).same(policies{})
}

// policyKeys are the annotations with policies and the pause.
var policyKeys = [...]string{AnnotationPaused, annotationManagementPolicies, annotationDeletionPolicy}

// is reports whether the object still has the maps that are remembered. This is the common case:
// nothing was noted since.
func (m *remembered) is(obj Resource) bool {
	return !m.unwritten && m.annotations != nil && sameMap(m.annotations, obj.GetAnnotations()) &&
		m.past == obj.meta().past && m.policies.same(policiesOf(obj))
}

// addTo adds to an object what is remembered and what it lacks. It reports whether something about its
// resource was added. From then on the object's own insert is the one that later inserts are compared
// with.
func (m *remembered) addTo(obj Resource) (added bool) {
	past := &obj.meta().past
	if past.inserted != nil {
		return m.addNotesTo(obj, false)
	}
	past.note(obj)
	m.addPoliciesTo(obj)
	added = m.addNotesTo(obj, past.applied == nil)
	past.inserted, past.unseen = past.unseen, nil
	return added
}

// addNotesTo adds to an object the remembered notes that it lacks, or has in an older state. It adds
// nothing if the object names another resource. inserted: the row is a plain insert. Then an annotation
// that the program has changed since its last insert stays, even if a create had changed it.
func (m *remembered) addNotesTo(obj Resource, inserted bool) (added bool) {
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

// addPoliciesTo adds to an inserted row the policies that other writers have set on the row that it
// replaces, unless it has policies of its own.
func (m *remembered) addPoliciesTo(obj Resource) {
	to, before := obj.meta(), m.past.inserted.typed()
	// Policies that the program applied to the old row and not to this one are taken back.
	applied := m.past.applied
	if to.past.applied == nil {
		applied = nil
	}
	for _, key := range policyKeys {
		value, was := m.annotations[key]
		if _, own := obj.GetAnnotations()[key]; was && !own && !m.past.inserted.has(key, value) && !applied.said(key, value) {
			obj.SetAnnotation(key, value)
		}
	}
	if len(to.ManagementPolicies) == 0 && !slices.Equal(m.policies.management, before.management) && !applied.has(claim{field: "ManagementPolicies"}) {
		to.ManagementPolicies = m.policies.management
	}
	if to.DeletionPolicy == "" && m.policies.deletion != before.deletion && !applied.has(claim{field: "DeletionPolicy"}) {
		to.DeletionPolicy = m.policies.deletion
	}
}

// parsed returns the time in a text, zero if it cannot be parsed.
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
