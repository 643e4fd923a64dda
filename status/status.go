// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"time"

	"github.com/statekeel/statekeel/internal/statusid"
)

// Status is the outcome of one reconciler for one object, stored in a field of the object. It is a
// plain value and can be copied. The zero Status is Unset: reconcilers leave the object alone.
type Status struct {
	// UpdatedAt is when the status was made.
	UpdatedAt time.Time `json:"updated-at" yaml:"updated-at"`

	// Error is the text of the error, or the reason for [KindBlocked]; nil for all other kinds.
	// Statuses share the string, so it must not be written to.
	Error *string `json:"error,omitempty" yaml:"error,omitempty"`

	// ID is unique in the process for each status made by a function of this package, and 0 for a
	// status made by hand. A reconciler that finds the ID it started with still in the table knows
	// that the wanted state has not changed meanwhile.
	//
	// In a row that comes from another process, as JSON for example, the ID is one that this process has not given
	// out. Reconcilers read it as 0, and a failure with it as Pending, since no retry of it waits in this process. Done
	// stays Done.
	ID uint64 `json:"id,omitempty" yaml:"id,omitempty"`

	// Kind is the state of the object.
	Kind Kind `json:"kind" yaml:"kind"`
}

// Pending returns the status with which a program asks for an object to be reconciled. Set a new
// one at every change of the object: its ID distinguishes the change from the status writes of
// reconcilers.
func Pending() Status { return newStatus(KindPending, time.Now(), nil) }

// Refreshing returns the status with which a program asks for an unchanged object to be reconciled
// again. Operations can read it on their object, and check more than for Pending.
func Refreshing() Status { return RefreshingAt(time.Now()) }

// RefreshingAt is [Refreshing] with the given time.
func RefreshingAt(at time.Time) Status { return newStatus(KindRefreshing, at, nil) }

// Done returns the status of an object that is in the target.
func Done() Status { return DoneAt(time.Now()) }

// DoneAt is [Done] with the given time.
func DoneAt(at time.Time) Status { return newStatus(KindDone, at, nil) }

// Error returns the status of an object whose operation failed with err. For a nil err the text is
// "<nil>".
func Error(err error) Status {
	text := "<nil>"
	if err != nil {
		text = err.Error()
	}
	return ErrorText(time.Now(), &text)
}

// ErrorText is [Error] with the given time and text. The status keeps the pointer, so many statuses
// can share one text; nil is read as "".
func ErrorText(at time.Time, text *string) Status { return newStatus(KindError, at, text) }

// Blocked returns the status of an object that waits for what reason names.
func Blocked(reason string) Status { return BlockedText(time.Now(), &reason) }

// BlockedText is [Blocked] with the given time. The status keeps the pointer, so many statuses can
// share one reason; nil is read as "".
func BlockedText(at time.Time, reason *string) Status { return newStatus(KindBlocked, at, reason) }

func newStatus(kind Kind, at time.Time, text *string) Status {
	return Status{UpdatedAt: at, Error: text, ID: statusid.Next(), Kind: kind}
}

// IsPendingOrRefreshing reports whether the status asks for an operation.
func (s Status) IsPendingOrRefreshing() bool {
	return s.Kind == KindPending || s.Kind == KindRefreshing
}

// GetError returns the text of the error, the reason for [KindBlocked], or "" if there is none.
func (s Status) GetError() string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}

// String returns the kind, the error or reason if there is one, and the age of the status: "Done
// (3.0s ago)", "Error: no such device (1.5m ago)". It reads the clock.
func (s Status) String() string {
	text := s.Kind.String()
	if s.Kind == KindError || s.Kind == KindBlocked {
		text += ": " + s.GetError()
	}
	return text + " (" + formatAge(time.Since(s.UpdatedAt)) + " ago)"
}
