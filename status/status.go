// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"sync/atomic"
	"time"
)

// Status is the outcome of one reconciler for one object, and a field of that object.
// It is a plain value: copy it freely. The zero Status is Unset: no reconciler touches
// the object.
type Status struct {
	// UpdatedAt is when the status was made.
	UpdatedAt time.Time `json:"updated-at" yaml:"updated-at"`

	// Error is the text of the error, for [KindBlocked] the reason, for all other kinds
	// nil. Statuses share the string: nobody may write to it.
	Error *string `json:"error,omitempty" yaml:"error,omitempty"`

	// ID is unique in the process for each status made by this package's functions, and
	// 0 for one that was made by hand. A reconciler that finds the ID it started from
	// still in the table knows that what it reconciled is still what is wanted.
	ID uint64 `json:"id,omitempty" yaml:"id,omitempty"`

	// Kind says where the object stands.
	Kind Kind `json:"kind" yaml:"kind"`
}

// lastID is the ID given out last. 0 is never given out.
var lastID atomic.Uint64

func nextID() uint64 { return lastID.Add(1) }

// Pending returns the status with which a program asks for an object to be reconciled.
// Set it anew at every change of the object: the fresh ID tells the change from the
// status writes of reconcilers.
func Pending() Status { return newStatus(KindPending, time.Now(), nil) }

// Refreshing returns the status with which a program asks for an unchanged object to be
// reconciled again. Operations can tell it from [Pending] and be more thorough.
func Refreshing() Status { return RefreshingAt(time.Now()) }

// RefreshingAt is [Refreshing] as of the given time.
func RefreshingAt(at time.Time) Status { return newStatus(KindRefreshing, at, nil) }

// Done returns the status of an object that the target has.
func Done() Status { return DoneAt(time.Now()) }

// DoneAt is [Done] as of the given time.
func DoneAt(at time.Time) Status { return newStatus(KindDone, at, nil) }

// Error returns the status of an object whose operation failed with err. A nil err is
// told apart from an empty text: it reads "<nil>".
func Error(err error) Status {
	text := "<nil>"
	if err != nil {
		text = err.Error()
	}
	return ErrorText(time.Now(), &text)
}

// ErrorText is [Error] as of the given time, with the error's text. The status shares
// the string, so that many statuses can carry one text; nil reads as "".
func ErrorText(at time.Time, text *string) Status { return newStatus(KindError, at, text) }

// Blocked returns the status of an object that waits for what the reason names.
func Blocked(reason string) Status { return BlockedText(time.Now(), &reason) }

// BlockedText is [Blocked] as of the given time. The status shares the string, so that
// many statuses can carry one reason; nil reads as "".
func BlockedText(at time.Time, reason *string) Status { return newStatus(KindBlocked, at, reason) }

func newStatus(kind Kind, at time.Time, text *string) Status {
	return Status{UpdatedAt: at, Error: text, ID: nextID(), Kind: kind}
}

// IsPendingOrRefreshing reports whether the object waits for a reconciler to take it up.
func (s Status) IsPendingOrRefreshing() bool {
	return s.Kind == KindPending || s.Kind == KindRefreshing
}

// GetError returns the text of the error, for [KindBlocked] the reason, and "" if there
// is none.
func (s Status) GetError() string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}

// String returns the kind, the error or reason if the kind has one, and the status's
// age: "Done (3.0s ago)", "Error: no such device (1.5m ago)". It reads the clock.
func (s Status) String() string {
	text := s.Kind.String()
	if s.Kind == KindError || s.Kind == KindBlocked {
		text += ": " + s.GetError()
	}
	return text + " (" + formatAge(time.Since(s.UpdatedAt)) + " ago)"
}
