// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// created says which annotations the creates of an object have set or removed, beside those of
// [noted]. It is the value of [AnnotationCreateChanges]. The values are those of the object that has
// it.
type created struct {
	// At is the time of the last create that did something to an annotation.
	At time.Time `json:"at"`
	// Keys are in order.
	Keys []string `json:"keys"`
}

// createdIn returns what an object says of the annotations that its creates changed, nothing if it
// says nothing that can be read.
func createdIn(annotations map[string]string) (c created) {
	if text := annotations[AnnotationCreateChanges]; text == "" || json.Unmarshal([]byte(text), &c) != nil {
		return created{}
	}
	return c
}

// about reports whether a create has set or removed an annotation.
func (c created) about(key string) bool {
	_, found := slices.BinarySearch(c.Keys, key)
	return found
}

// noteCreated makes the annotations of an object those of the clone that Create was handed, and notes
// which ones that changes. at is the time of the create.
func noteCreated(obj, clone object.Object, at time.Time) {
	c, before, left := createdIn(obj.GetAnnotations()), obj.GetAnnotations(), clone.GetAnnotations()
	changes := func(key string) bool {
		was, had := before[key]
		is, has := left[key]
		return (was != is || had != has) && !slices.Contains(noted[:], key)
	}
	changed := false
	for _, annotations := range []map[string]string{before, left} {
		for key := range annotations {
			if changes(key) {
				c.Keys, changed = append(c.Keys, key), true
			}
		}
	}
	replaceAnnotations(obj, clone)
	if !changed {
		return
	}
	slices.Sort(c.Keys)
	c.Keys = slices.Compact(c.Keys)
	if !at.After(c.At) {
		at = c.At.Add(time.Nanosecond)
	}
	c.At = at.UTC()
	// Times and texts cannot fail to be written.
	text, _ := json.Marshal(c)
	obj.SetAnnotation(AnnotationCreateChanges, string(text))
}

// copyCreated does to the annotations of a clone what creates did to those of another version of the
// row, unless it was done before: what was changed since stays changed. Annotations that keep is true
// for are left alone. It reports whether there was something to be done.
func copyCreated(to object.Object, from map[string]string, keep func(key string) bool) (copied bool) {
	if from[AnnotationCreateChanges] == to.GetAnnotations()[AnnotationCreateChanges] {
		return false
	}
	c := createdIn(from)
	if !c.At.After(createdIn(to.GetAnnotations()).At) {
		return false
	}
	for _, key := range c.Keys {
		value, has := from[key]
		switch {
		case keep(key):
		case has:
			to.SetAnnotation(key, value)
		default:
			to.RemoveAnnotation(key)
		}
	}
	to.SetAnnotation(AnnotationCreateChanges, from[AnnotationCreateChanges])
	return true
}

// nothingKept is for [copyCreated].
func nothingKept(string) bool { return false }
