// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"errors"

	"github.com/statekeel/statekeel/internal/chain"
)

// The errors of an [Inspector] and a [Controller]. The methods wrap them, with the name of the reconciler or
// the key: compare them by [errors.Is].
var (
	// ErrNotFound is returned for a key that is neither in the table nor tracked by the reconciler.
	ErrNotFound = errors.New("no such object")
	// ErrNotStarted is returned by calls that need the loop of a reconciler that was not started.
	ErrNotStarted = errors.New("the reconciler has not been started")
	// ErrStopped is returned by calls that need the loop of a reconciler that has stopped, and by
	// waits that can no longer end in another way.
	ErrStopped = chain.ErrStopped
)

// MaxKeys is the number of keys that one call of Retry, Refresh or PauseOnly of a [Controller] accepts. A call with more
// keys does nothing and returns an error.
const MaxKeys = 1000

// BusyError is returned, as a pointer, when the loop did not answer within 100 ms because it is in an
// operation. Find it by [errors.As] with a *BusyError.
type BusyError struct {
	// With describes the operation and its start, for people to read. It is empty if it is not known.
	With string
}

// Error returns a text with the operation that keeps the reconciler busy.
func (e *BusyError) Error() string {
	if e.With == "" {
		return "the reconciler is busy"
	}
	return "the reconciler is busy: " + e.With
}
