// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// pieceOf returns a unique short text that is a substring of a text of one mebibyte.
func pieceOf(i int) string { return fmt.Sprintf("%020d%s", i, strings.Repeat("x", 1<<20))[:20] }

// A short text may be a substring of a long one, such as a line of a command's output. An event
// keeps only the substring in memory.
func TestEventsDoNotKeepLongTextsOfSubstrings(t *testing.T) {
	for name, eventOf := range map[string]func(piece string) (string, event.Event){
		"message":    func(s string) (string, event.Event) { return "a", event.Event{Message: s} },
		"reason":     func(s string) (string, event.Event) { return "a", event.Event{Reason: event.Reason(s)} },
		"name":       func(s string) (string, event.Event) { return s, event.Event{} },
		"annotation": func(s string) (string, event.Event) { return "a", event.Normal("Done", "", "key", s) },
		"source":     func(s string) (string, event.Event) { return "a", event.Normal("Done", "", event.SourceAnnotation, s) },
	} {
		t.Run(name, func(t *testing.T) {
			inTable(t, event.TableConfig{}, func(e *env) {
				const events = 64
				before := held()
				for i := range events {
					name, occurred := eventOf(pieceOf(i))
					e.recorder.Event(&object.Meta{Namespace: strconv.Itoa(i), Name: name}, occurred)
				}
				require.Less(e, held(), before+events<<16)
			})
		})
	}
}

// A program may make a recorder for each object: each has bounded annotations, without the texts they were cut from.
func TestAnnotationsOfRecordersAreBounded(t *testing.T) {
	throttled, err := event.NewThrottledRecorder(event.NewNopRecorder(), event.Throttle{})
	require.NoError(t, err)
	for name, recorder := range map[string]event.Recorder{
		"slog": event.NewSlogRecorder(slog.New(slog.DiscardHandler)), "throttle": throttled,
	} {
		t.Run(name, func(t *testing.T) {
			const recorders = 64
			var made []event.Recorder
			before := held()
			for i := range recorders {
				made = append(made, recorder.WithAnnotations("a", strings.Repeat("x", 1<<18), "b", pieceOf(i)))
			}
			require.Less(t, held(), before+recorders*2*event.MaxText)
			runtime.KeepAlive(made)
		})
	}
}

// An event has the number of annotations left out over all calls of WithAnnotations.
func TestLeftOutAnnotationsAreCountedOverAllCalls(t *testing.T) {
	inTable(t, event.TableConfig{}, func(e *env) {
		const each = 40
		var recorder event.Recorder = e.recorder
		for call := range 3 {
			var annotations []string
			for i := range each {
				annotations = append(annotations, fmt.Sprintf("%d-%02d", call, i), strings.Repeat("x", 1000))
			}
			recorder = recorder.WithAnnotations(annotations...)
		}
		defer e.run()()
		recorder.Event(&object.Meta{Name: "a"}, event.Normal("Done", "", "last", strings.Repeat("y", 1000)))
		e.written()
		var row *event.Row
		for row = range e.table.All(e.db.ReadTxn()) {
		}
		left, _ := strconv.Atoi(strings.Fields(row.Annotations["left out"])[0])
		require.Equal(e, 3*each+1, len(row.Annotations)-1+left, row.Annotations["left out"])
	})
}
