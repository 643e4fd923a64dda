// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/statekeel/statekeel/reconciler/object"
)

// newRow returns the row of an event that has happened once.
func newRow(obj object.Object, e Event, now time.Time) *Row {
	key := object.KeyOf(obj)
	row := &Row{
		Source: e.Annotations[SourceAnnotation], Namespace: key.Namespace, Name: key.Name,
		Type: e.Type, Reason: e.Reason, Message: cut(e.Message), Annotations: e.Annotations,
		Count: 1, HeldBack: e.HeldBack, First: now, Last: now,
	}
	if _, ok := e.Annotations[SourceAnnotation]; ok {
		row.Annotations = maps.Clone(e.Annotations)
		delete(row.Annotations, SourceAnnotation)
	}
	if len(row.Annotations) == 0 {
		row.Annotations = nil
	}
	return row
}

// repeated returns a row for what two rows of one key stand for.
func repeated(earlier, later *Row) *Row {
	both := *later
	both.Count += earlier.Count
	both.HeldBack += earlier.HeldBack
	both.First = earlier.First
	return &both
}

// cut returns a message of at most MaxMessage bytes, of whole runes. What is left out is not
// held on to.
func cut(message string) string {
	const more = "…"
	if len(message) <= MaxMessage {
		return message
	}
	end := MaxMessage - len(more)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return strings.Clone(message[:end]) + more
}
