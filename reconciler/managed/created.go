// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// created lists the annotations that the creates of an object have set or removed, except those in
// [noted]. It is the value of [annotationCreateChanges]. The values themselves are in the annotations
// of the object.
type created struct {
	// At is the time of the last create that changed an annotation.
	At time.Time `json:"at"`
	// Keys are sorted.
	Keys []string `json:"keys"`
}

// createdIn returns the value of [annotationCreateChanges], the zero value if there is none or it
// cannot be parsed.
func createdIn(annotations map[string]string) (c created) {
	if text := annotations[annotationCreateChanges]; text == "" || json.Unmarshal([]byte(text), &c) != nil {
		return created{}
	}
	return c
}

// about reports whether a create has set or removed an annotation.
func (c created) about(key string) bool {
	_, found := slices.BinarySearch(c.Keys, key)
	return found
}

// noteCreated copies the annotations of the clone that Create received onto the object, and records
// which of them Create changed. at is the time of the create.
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
	// Times and texts can always be marshalled.
	text, _ := json.Marshal(c)
	obj.SetAnnotation(annotationCreateChanges, string(text))
}

// copyCreated repeats on a clone the annotation changes that creates made on another version of the
// row. It does nothing if the clone has them already, so that later changes stay. It leaves alone the
// annotations for which keep returns true. It reports whether there was something to copy.
func copyCreated(to object.Object, from map[string]string, keep func(key string) bool) (copied bool) {
	if from[annotationCreateChanges] == to.GetAnnotations()[annotationCreateChanges] {
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
	to.SetAnnotation(annotationCreateChanges, from[annotationCreateChanges])
	return true
}

// nothingKept is the keep function of [copyCreated] that keeps no annotation.
func nothingKept(string) bool { return false }
