// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

func name(s string) string { return short(s, MaxName) }

// short returns a text that is cut to the given number of bytes. It is a copy: s may be a piece of
// a long text, which is not held.
func short(s string, most int) string { return strings.Clone(text.Cut(s, most)) }

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

// bounded returns what is kept of annotations, a copy; nil if there are none.
func bounded(annotations map[string]string) map[string]string {
	if len(annotations) == 0 {
		return nil
	}
	size := 0
	for key, value := range annotations {
		size += sizeOf(key, value)
	}
	if size <= MaxText && len(annotations[SourceAnnotation]) <= MaxName {
		kept := make(map[string]string, len(annotations))
		for key, value := range annotations {
			kept[strings.Clone(key)] = strings.Clone(value)
		}
		return kept
	}
	keys := slices.Sorted(maps.Keys(annotations))
	if _, ok := annotations[SourceAnnotation]; ok {
		keys = append([]string{SourceAnnotation}, keys...)
	}
	kept, room, left := map[string]string{}, MaxText-2*perAnnotation, numLeftOut(annotations)
	for _, key := range keys {
		if key == leftOut {
			continue
		}
		keyText, value := name(key), name(annotations[key])
		if _, twice := kept[keyText]; twice {
			if key != SourceAnnotation {
				left++
			}
			continue
		}
		if room -= sizeOf(keyText, value); room < 0 {
			left++
			continue
		}
		kept[keyText] = value
	}
	setLeftOut(kept, left)
	return kept
}

// numLeftOut returns how many annotations were left out of some before; 0 if none.
func numLeftOut(annotations map[string]string) (n int) {
	if _, err := fmt.Sscanf(annotations[leftOut], "%d annotations", &n); err != nil || n < 0 {
		return 0
	}
	return n
}

func setLeftOut(annotations map[string]string, n int) {
	if n > 0 {
		annotations[leftOut] = fmt.Sprintf("%d annotations", n)
	}
}
