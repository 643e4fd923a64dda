// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "errors"

var (
	// ErrNotFound is returned for a key that is neither in the table nor known to the reconciler.
	ErrNotFound = errors.New("no such object")
	// ErrNotStarted is returned by calls that need a reconciler which has not been started.
	ErrNotStarted = errors.New("the reconciler has not been started")
	// ErrStopped is returned by calls that need a reconciler which has stopped, waits among them.
	ErrStopped = errors.New("the reconciler has stopped")
)

// MaxKeys is how many keys one call of Retry, Refresh, PauseKeys and ResumeKeys of a [Controller]
// takes: one with more does nothing and returns an error.
const MaxKeys = 1000

// BusyError is returned, as a pointer, when a reconciler did not answer in time, being in an operation: use
// [errors.As] with a *BusyError.
type BusyError struct {
	// With is what it is in, and since when, for people to read; empty if that is not known.
	With string
}

// Error returns that the reconciler is busy, and with what.
func (e *BusyError) Error() string {
	if e.With == "" {
		return "the reconciler is busy"
	}
	return "the reconciler is busy: " + e.With
}
