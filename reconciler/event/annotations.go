// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"maps"
	"slices"
)

// SourceAnnotation is the key of the annotation that names the source of an event, such as the
// reconciler. It distinguishes objects of the same name from different sources. Set it once, on the
// recorder of the source:
//
//	recorder.WithAnnotations(event.SourceAnnotation, "tunnels")
const SourceAnnotation = "source"

// with returns the bounded union of annotations and the keys and values, which take precedence. It
// does not change the given map.
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

// over returns the event with the annotations of a recorder added. Those of the event take
// precedence.
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

// sorted returns the keys of annotations in order, without that of the source.
func sorted(annotations map[string]string) []string {
	keys := slices.Sorted(maps.Keys(annotations))
	return slices.DeleteFunc(keys, func(key string) bool { return key == SourceAnnotation })
}
