// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"log/slog"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Type classifies an event as normal or as a warning.
type Type string

const (
	// TypeNormal is the type of events about progress.
	TypeNormal Type = "Normal"
	// TypeWarning is the type of events about failures.
	TypeWarning Type = "Warning"
)

// Reason is the cause of an event as one word, such as "CreatedExternalResource". A program should use
// few reasons, without values in them: events of one object and reason share a row of the table.
type Reason string

// Event is something that happened to an object.
type Event struct {
	// Type is [TypeNormal] or [TypeWarning]. Any other type, including the empty one, is recorded
	// as given and treated as normal.
	Type Type
	// Reason is the cause. It may be empty.
	Reason Reason
	// Message is a sentence for people. It may be empty.
	Message string
	// Source names what records the event, such as a reconciler: see [From]. It may be empty.
	Source string
}

// Normal returns an event about progress.
func Normal(r Reason, message string) Event {
	return Event{Type: TypeNormal, Reason: r, Message: message}
}

// Warning returns an event about a failure. Its message is the text of the error, or empty if err
// is nil.
func Warning(r Reason, err error) Event {
	e := Event{Type: TypeWarning, Reason: r}
	if err != nil {
		e.Message = err.Error()
	}
	return e
}

// Recorder records events. The recorders of this package are safe for concurrent use. They do not
// block: none waits for a table, and only that of [NewSlogRecorder] waits for the handler of its
// logger.
type Recorder interface {
	// Event records an event about an object, which must not be nil. The recorder reads the name of
	// the object before Event returns, and does not keep the object.
	Event(obj object.Object, e Event)
}

type recorderFunc func(obj object.Object, e Event)

func (f recorderFunc) Event(obj object.Object, e Event) { f(obj, e) }

// NewNopRecorder returns a recorder that discards all events.
func NewNopRecorder() Recorder { return recorderFunc(func(object.Object, Event) {}) }

// From returns a recorder that sets the source of events that have none: it tells objects of the same name apart.
func From(to Recorder, source string) Recorder {
	return recorderFunc(func(obj object.Object, e Event) {
		if e.Source == "" {
			e.Source = source
		}
		to.Event(obj, e)
	})
}

// NewSlogRecorder returns a recorder that logs warnings as [slog.LevelWarn] and other events as
// [slog.LevelInfo]. The log message is that of the event, or the reason if it has none, with
// unprintable characters escaped. The attributes are the object ("namespace/name"), the reason, and the
// source if the event has one. Event returns when the logger's handler does. log must not be nil.
func NewSlogRecorder(log *slog.Logger) Recorder {
	return recorderFunc(func(obj object.Object, e Event) { logEvent(log, obj, e) })
}

func logEvent(log *slog.Logger, obj object.Object, e Event) {
	level := slog.LevelInfo
	if e.Type == TypeWarning {
		level = slog.LevelWarn
	}
	// Do not build the texts of an event that is not logged.
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return
	}
	row := newRow(obj, e, time.Time{})
	message := row.Message
	if message == "" {
		message = string(row.Reason)
	}
	attrs := []slog.Attr{slog.String("object", row.object().String()), slog.String("reason", string(row.Reason))}
	if row.Source != "" {
		attrs = append(attrs, slog.String("source", row.Source))
	}
	log.LogAttrs(ctx, level, text.Printable(message), attrs...)
}
