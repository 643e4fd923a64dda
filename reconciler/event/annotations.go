// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"maps"
	"slices"
)

// SourceAnnotation names what an event is from, such as the reconciler: in a program that
// keeps several kinds of objects, those of different sources are told apart by it. It is
// given once, to the recorder of the source:
//
//	recorder.WithAnnotations(event.SourceAnnotation, "tunnels")
const SourceAnnotation = "source"

// with returns annotations and, on top of them, the keys and values, as far as they are kept;
// the map given stays as it is.
func with(annotations map[string]string, keysAndValues []string) map[string]string {
	if len(keysAndValues) == 0 {
		return annotations
	}
	added := make(map[string]string, len(annotations)+(len(keysAndValues)+1)/2)
	maps.Copy(added, annotations)
	for i := 0; i < len(keysAndValues); i += 2 {
		value := ""
		if i+1 < len(keysAndValues) {
			value = keysAndValues[i+1]
		}
		added[keysAndValues[i]] = value
	}
	return bounded(added)
}

// over returns the event with annotations of a recorder below its own.
func over(annotations map[string]string, e Event) Event {
	switch {
	case len(annotations) == 0:
	case len(e.Annotations) == 0:
		e.Annotations = annotations
	default:
		both := maps.Clone(annotations)
		maps.Copy(both, e.Annotations)
		if earlier, own := numLeftOut(annotations), numLeftOut(e.Annotations); earlier > 0 {
			setLeftOut(both, earlier+own)
		}
		e.Annotations = both
	}
	return e
}

// sorted returns the keys of annotations in order, that of the source left out.
func sorted(annotations map[string]string) []string {
	keys := slices.Sorted(maps.Keys(annotations))
	return slices.DeleteFunc(keys, func(key string) bool { return key == SourceAnnotation })
}
