// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import "github.com/statekeel/statekeel/reconciler/object"

// Type classifies an event as normal or as a warning.
type Type string

const (
	// TypeNormal is the type of events about progress.
	TypeNormal Type = "Normal"
	// TypeWarning is the type of events about failures.
	TypeWarning Type = "Warning"
)

// Reason is the cause of an event as one word, such as "CreatedExternalResource". A program should use
// few reasons, without values in them: warnings are throttled by reason.
type Reason string

// Event is something that happened to an object. It is a value: recorders keep copies, with long
// texts cut (see [MaxText]).
type Event struct {
	// Type is [TypeNormal] or [TypeWarning]. Any other type, including the empty one, is recorded
	// as given and treated as normal.
	Type Type
	// Reason is the cause. It may be empty.
	Reason Reason
	// Message is a sentence for people. It may be empty.
	Message string
	// Annotations are details by name. Copies of an event share the map, which must not be changed
	// after the event was recorded. nil means none.
	Annotations map[string]string
	// HeldBack is the number of events of the same object and reason that a throttle has held back
	// since it last passed one. It is set by throttles.
	HeldBack uint64
}

// Normal returns an event about progress. keysAndValues are its annotations, as keys and values in
// turn. A last key without a value gets the empty value.
func Normal(r Reason, message string, keysAndValues ...string) Event {
	return Event{Type: TypeNormal, Reason: r, Message: message, Annotations: with(nil, keysAndValues)}
}

// Warning returns an event about a failure. Its message is the text of the error, or empty if err
// is nil. keysAndValues are as for [Normal].
func Warning(r Reason, err error, keysAndValues ...string) Event {
	e := Event{Type: TypeWarning, Reason: r, Annotations: with(nil, keysAndValues)}
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
	// WithAnnotations returns a recorder that adds annotations, given as keys and values in turn,
	// to its events. Annotations of the event take precedence over them, and later calls over
	// earlier ones. The original recorder does not change. Both share the table or the throttle.
	WithAnnotations(keysAndValues ...string) Recorder
}

// NewNopRecorder returns a recorder that discards all events.
func NewNopRecorder() Recorder { return nopRecorder{} }

type nopRecorder struct{}

func (nopRecorder) Event(object.Object, Event)         {}
func (nopRecorder) WithAnnotations(...string) Recorder { return nopRecorder{} }
