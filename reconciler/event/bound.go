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

// The limits, in bytes, of the texts of one event that the recorders of this package keep or log. A
// longer text is cut, and ends with the number of bytes left out.
const (
	// MaxMessage limits a message in the table.
	MaxMessage = 1 << 10
	// MaxName limits a type, a reason, a source, and the namespace and the name of an object. Names
	// that differ only after this limit count as equal.
	MaxName = 1 << 10
	// MaxText limits a message in the log, and all annotations of an event together, where each
	// annotation counts 64 bytes more than its key and value. If there are more, each key and value
	// is cut to MaxName, and the first annotations in the order of their keys are kept, and always
	// the source. The annotation "left out" has the number of the others.
	MaxText = 16 << 10
)

const (
	// leftOut is the key of the annotation with the number of annotations left out.
	leftOut = "left out"
	// perAnnotation is the size of an annotation in a map beside its texts.
	perAnnotation = 64
)

func name(s string) string { return short(s, MaxName) }

// short returns a text cut to the given number of bytes. It is a copy, since s may be a substring
// that keeps a long text in memory.
func short(s string, most int) string { return strings.Clone(text.Cut(s, most)) }

// about identifies the object and the reason of an event.
type about struct {
	source string
	object object.Key
	reason Reason
}

// aboutOf returns the about of an event, with bounded texts.
func aboutOf(obj object.Object, e Event) about {
	key := object.KeyOf(obj)
	return about{
		name(e.Annotations[SourceAnnotation]),
		object.Key{Namespace: name(key.Namespace), Name: name(key.Name)},
		Reason(name(string(e.Reason))),
	}
}

func sizeOf(key, value string) int { return len(key) + len(value) + perAnnotation }

// bounded returns a copy of annotations within the limits, or nil if there are none.
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

// numLeftOut returns the number of annotations that were left out before, or 0.
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
