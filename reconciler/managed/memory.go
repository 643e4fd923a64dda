// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// memory is what the process knows of objects that their rows may not tell: a program may replace a row by one
// without the notes, and a row may be gone when there is something to note.
type memory[T Managed] struct {
	mu    sync.Mutex
	byKey map[object.Key]*known[T]
}

// known is what is known of one object. A T that is zero is not known.
type known[T Managed] struct {
	// record is that of the last pass that noted something, nil if there is none. It must not be changed.
	record *record
	// base is the version of the row with which the last pass began, so that Merge can tell what the pass has set.
	base T
	// dropped is the last version of a row that the reconciler removed itself, until the loop calls Delete for it.
	dropped T
	// removed is a row that was removed without Writer.Delete, or that was listed, with the conditions of
	// its last pass, until its resource is gone. The row before does not tell whose resource it is: the program may
	// have replaced it just before. listed is that of its pass.
	removed T
	listed  bool
	// left holds the external names of resources that were left in place, until a row takes them over. An empty
	// name stands for every name.
	left []string
	// marked is when the leave hook first marked the resource; zero if it has not.
	marked time.Time
}

// record is what is remembered of an object at the end of a pass.
type record struct {
	// annotations is shared with the row.
	annotations map[string]string
	// details are the connection details that calls have noted, until they are published. They may be
	// secrets, so the table does not have them.
	details ConnectionDetails
}

// get returns a copy of what is known of an object.
func (m *memory[T]) get(key object.Key) known[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; k != nil {
		return *k
	}
	return known[T]{}
}

// set changes what is known of an object. change must not call the memory.
func (m *memory[T]) set(key object.Key, change func(k *known[T])) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	if k == nil {
		k = &known[T]{}
		m.byKey[key] = k
	}
	change(k)
}

// forget drops what is known of an object whose row is gone, but the names of resources left in place.
func (m *memory[T]) forget(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; k != nil && len(k.left) > 0 {
		*k = known[T]{left: k.left}
	} else {
		delete(m.byKey, key)
	}
}

// hasLeft reports whether the resource of an object was left in place.
func (k *known[T]) hasLeft(obj T) bool {
	name := GetExternalName(obj)
	return len(k.left) > 0 && (name == "" || slices.Contains(k.left, name) || slices.Contains(k.left, ""))
}

// keep remembers the notes of an object, and connection details. It does nothing if there are none, and never
// were any.
func (k *known[T]) keep(obj T, details ConnectionDetails) {
	if k.record != nil || details != nil || notesIn(obj.GetAnnotations()) {
		k.record = &record{obj.GetAnnotations(), details}
		obj.meta().lineage.record = k.record
	}
}

// is reports whether an object was made from the record, and nothing was noted since.
func (k *record) is(obj Resource, details ConnectionDetails) bool {
	return k != nil && k == obj.meta().lineage.record && k.details == nil && details == nil &&
		sameMap(k.annotations, obj.GetAnnotations())
}

// lineage tells from which version of the row another version was made.
type lineage struct {
	// record is what the process remembered when it wrote the version, nil if it did not write it.
	record *record
	// before and from are the annotations and the record of the version with which the last pass began, or
	// that it wrote: so it is known what the pass has changed since.
	before map[string]string
	from   *record
}

// begin notes on the object of a pass which version is in the table.
func (l *lineage) begin(annotations map[string]string) { l.before, l.from = annotations, l.record }

// joined returns the later details, and the earlier ones of other names.
func joined(earlier, later ConnectionDetails) ConnectionDetails {
	if earlier == nil {
		return later
	}
	all := maps.Clone(earlier)
	maps.Copy(all, later)
	return all
}

// detached returns a copy of details: a client may erase what it has returned.
func detached(details ConnectionDetails) ConnectionDetails {
	kept := make(ConnectionDetails, len(details))
	for name, value := range details {
		kept[name] = bytes.Clone(value)
	}
	return kept
}

// addTo adds to an object the remembered notes that it lacks, or has in an older state. It adds nothing
// if the object names another resource. It reports whether something was added.
func (k *record) addTo(obj Resource) (added bool) {
	was, before := k.annotations, obj.GetAnnotations()
	if !notesIn(was) || before[AnnotationExternalName] != "" && before[AnnotationExternalName] != was[AnnotationExternalName] {
		return false
	}
	for _, key := range createNotes {
		if parsed(was[key]).After(parsed(before[key])) {
			obj.SetAnnotation(key, was[key])
		}
	}
	for _, key := range append(createdIn(was), AnnotationExternalName, annotationCreateChanges) {
		if value, had := was[key]; had && before[key] == "" {
			obj.SetAnnotation(key, value)
		}
	}
	return !maps.Equal(before, obj.GetAnnotations())
}

// notesIn reports whether annotations have an external name or a pending create.
func notesIn(annotations map[string]string) bool {
	_, named := annotations[AnnotationExternalName]
	_, begun := annotations[annotationCreatePending]
	return named || begun
}

// createNoted reports whether an object has a note about a create.
func createNoted(obj object.Object) bool {
	return slices.ContainsFunc(createNotes[:], func(key string) bool { return obj.GetAnnotations()[key] != "" })
}

// createNotes are the annotations with the times and results of creates.
var createNotes = [...]string{annotationCreatePending, annotationCreateSucceeded, annotationCreateFailed}

// createdIn returns the annotations that creates have set: the value of [annotationCreateChanges], which
// is a list in JSON. It returns nil if the value cannot be parsed.
func createdIn(annotations map[string]string) (keys []string) {
	_ = json.Unmarshal([]byte(annotations[annotationCreateChanges]), &keys)
	return keys
}

// noteCreated copies the annotations of the clone that Create received onto the object, and records
// which ones Create has set.
func noteCreated(obj, clone object.Object) {
	keys, before := createdIn(obj.GetAnnotations()), obj.GetAnnotations()
	for key, value := range clone.GetAnnotations() {
		if was, had := before[key]; (!had || was != value) && !slices.Contains(keys, key) && !slices.Contains(noted[:], key) {
			keys = append(keys, key)
		}
	}
	replaceAnnotations(obj, clone)
	if len(keys) > 0 {
		slices.Sort(keys)
		// Texts can always be marshalled.
		text, _ := json.Marshal(keys)
		obj.SetAnnotation(annotationCreateChanges, string(text))
	}
}

// replaceAnnotations gives a clone the annotations of another object.
func replaceAnnotations(to, from object.Object) {
	repeatChanges(to, to.GetAnnotations(), from.GetAnnotations())
}

// repeatChanges makes the changes between two states of annotations on a clone.
func repeatChanges(to object.Object, before, after map[string]string) {
	for key := range before {
		if _, has := after[key]; !has {
			to.RemoveAnnotation(key)
		}
	}
	for key, value := range after {
		if was, had := before[key]; !had || was != value {
			to.SetAnnotation(key, value)
		}
	}
}

// mergeAnnotations makes on another version of a row the changes that a pass has made to annotations. An
// external name that was given to that version meanwhile stays: the next pass reports the other one, which
// the process remembers.
func mergeAnnotations(version, obj Resource) {
	passed, given := obj.meta().lineage, GetExternalName(version)
	repeatChanges(version, passed.before, obj.GetAnnotations())
	if given != passed.before[AnnotationExternalName] && given != GetExternalName(obj) && given != "" {
		SetExternalName(version, given)
	} else if passed.from != nil && version.meta().lineage.record == passed.from {
		version.meta().lineage.record = passed.record
	}
}

// parsed returns the time in a text, zero if it cannot be parsed.
func parsed(text string) (at time.Time) {
	if text != "" { // the error of an empty text takes time
		at, _ = time.Parse(time.RFC3339Nano, text)
	}
	return at
}
