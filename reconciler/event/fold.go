// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"time"

	"github.com/statekeel/statekeel/reconciler/object"
)

// newRow returns the row of a single event, with bounded texts.
func newRow(obj object.Object, e Event, now time.Time) *Row {
	about, annotations := aboutOf(obj, e), bounded(e.Annotations)
	delete(annotations, SourceAnnotation)
	if len(annotations) == 0 {
		annotations = nil
	}
	return &Row{
		Source: about.source, Namespace: about.object.Namespace, Name: about.object.Name,
		Type: Type(name(string(e.Type))), Reason: about.reason, Message: short(e.Message, MaxMessage),
		Annotations: annotations, Count: 1, HeldBack: e.HeldBack, First: now, Last: now,
	}
}

// repeated returns the sum of two rows of one key.
func repeated(earlier, later *Row) *Row {
	both := *later
	both.Count += earlier.Count
	both.HeldBack += earlier.HeldBack
	both.First = earlier.First
	return &both
}
