// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"fmt"
	"maps"
	"slices"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// The bounds, in bytes, of what the recorders of this package keep or log of one event. A text
// that is longer is cut, and ends in how many bytes were left out.
const (
	// MaxMessage is that of a message in the table.
	MaxMessage = 1 << 10
	// MaxName is that of a type, a reason and a source, and of the namespace and the name of an
	// object. Events whose names differ only behind it are taken for events of one object.
	MaxName = 1 << 10
	// MaxText is that of a message in the log, and of all annotations of an event, of which each
	// counts for 64 bytes beside its key and value. Of annotations that are more, each key and
	// value is cut to MaxName, and the first in the order of their keys are kept, the source
	// always; the annotation "left out" says how many were not.
	MaxText = 16 << 10
)

const (
	// leftOut is the annotation that says how many others were left out.
	leftOut = "left out"
	// perAnnotation is what a map takes for an annotation beside its texts.
	perAnnotation = 64
)

func name(s string) string { return text.Cut(s, MaxName) }

// about says which object an event is about, and why there is one.
type about struct {
	source string
	object object.Key
	reason Reason
}

// aboutOf returns what is kept of it.
func aboutOf(obj object.Object, e Event) about {
	key := object.KeyOf(obj)
	return about{
		name(e.Annotations[SourceAnnotation]),
		object.Key{Namespace: name(key.Namespace), Name: name(key.Name)},
		Reason(name(string(e.Reason))),
	}
}

func sizeOf(key, value string) int { return len(key) + len(value) + perAnnotation }

// bounded returns what is kept of annotations: themselves, unless they are too long or too many.
func bounded(annotations map[string]string) map[string]string {
	size := 0
	for key, value := range annotations {
		size += sizeOf(key, value)
	}
	if size <= MaxText && len(annotations[SourceAnnotation]) <= MaxName {
		return annotations
	}
	keys := slices.Sorted(maps.Keys(annotations))
	if _, ok := annotations[SourceAnnotation]; ok {
		keys = append([]string{SourceAnnotation}, keys...)
	}
	kept, room, left := map[string]string{}, MaxText-2*perAnnotation, 0
	for _, key := range keys {
		short, value := name(key), name(annotations[key])
		if _, twice := kept[short]; twice {
			if key != SourceAnnotation {
				left++
			}
			continue
		}
		if room -= sizeOf(short, value); room < 0 {
			left++
			continue
		}
		kept[short] = value
	}
	if left > 0 {
		kept[leftOut] = fmt.Sprintf("%d annotations", left)
	}
	return kept
}
