// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package event tells people what happened to an object: that a resource was created, that
// it could not be deleted, that somebody has to decide. An operation hands an [Event] to a
// [Recorder], and the recorder says where it is to be read: in the log ([NewSlogRecorder]), in
// a table that `db/show events` prints ([Cell]), in several places ([NewMultiRecorder]), and
// how many are too many ([NewThrottledRecorder]).
//
// Events are for people. No program should be steered by them: they are folded, throttled
// and forgotten. What a program needs is in the object's status.
package event

import "github.com/statekeel/statekeel/reconciler/object"

// Type says whether an event is a good one.
type Type string

const (
	// TypeNormal is of events that say how things go.
	TypeNormal Type = "Normal"
	// TypeWarning is of events that say that something went wrong.
	TypeWarning Type = "Warning"
)

// Reason says in one word why there is an event, such as "CreatedExternalResource". The
// words of a program are few and do not contain values: events are counted by them.
type Reason string

// Event is something that happened to an object. It is a value: recorders keep copies, of which
// long texts are cut (see [MaxText]).
type Event struct {
	// Type is [TypeNormal] or [TypeWarning]. Any other, the empty one too, is recorded as
	// it is and treated as normal.
	Type Type
	// Reason may be empty, but tells little then.
	Reason Reason
	// Message is a sentence for people. It may be empty.
	Message string
	// Annotations say more by name. The map is shared by the copies of an event, and must
	// not be changed once it is recorded. nil means none.
	Annotations map[string]string
	// HeldBack is how many events of the same object and reason a throttle has kept from
	// the recorder since the one before. It is for throttles to set.
	HeldBack uint64
}

// Normal returns an event that says how things go. The keys and values, in turn, are its
// annotations; a last key without a value has an empty one.
func Normal(r Reason, message string, keysAndValues ...string) Event {
	return Event{Type: TypeNormal, Reason: r, Message: message, Annotations: with(nil, keysAndValues)}
}

// Warning returns an event that says what went wrong. Its message is the text of the error,
// empty if that is nil. The keys and values are as for [Normal].
func Warning(r Reason, err error, keysAndValues ...string) Event {
	e := Event{Type: TypeWarning, Reason: r, Annotations: with(nil, keysAndValues)}
	if err != nil {
		e.Message = err.Error()
	}
	return e
}

// Recorder records events. The recorders of this package are safe from any goroutine and
// return at once: none waits for a table, and only the one to a logger for its handler.
type Recorder interface {
	// Event records what happened to an object. The object must not be nil; it is asked
	// for its name before Event returns, and not kept.
	Event(obj object.Object, e Event)
	// WithAnnotations returns a recorder that adds annotations, given as keys and values
	// in turn, to the events that it records. Those of the event itself and of later
	// calls win over those of earlier ones. The recorder that it is called on stays as it
	// is. What they share (a table, a throttle) they go on sharing.
	WithAnnotations(keysAndValues ...string) Recorder
}

// NewNopRecorder returns a recorder that forgets everything.
func NewNopRecorder() Recorder { return nopRecorder{} }

type nopRecorder struct{}

func (nopRecorder) Event(object.Object, Event)         {}
func (nopRecorder) WithAnnotations(...string) Recorder { return nopRecorder{} }
