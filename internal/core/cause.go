// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Cause is why an item is run.
type Cause uint8

const (
	// CauseChange: the object was inserted, changed or deleted. The core also keeps it for entries
	// whose cause follows from their state or their lane.
	CauseChange Cause = iota
	// CauseRefresh: the object was marked for a refresh.
	CauseRefresh
	// CauseRetry: the last attempt failed, and the backoff is over.
	CauseRetry
	// CauseRequeue: the last outcome asked for another run.
	CauseRequeue
	// CauseReleased: the key was blocked, and was released.
	CauseReleased
	// CauseRecheck: the key was blocked for the longest time that is allowed.
	CauseRecheck
	// CauseProbe: the item finds out whether the target is up again.
	CauseProbe
	// CauseBreaker: the breaker of the key closed.
	CauseBreaker
	// CauseResumed: the object is not paused any more.
	CauseResumed
	// CauseCall: a call of RetryNow.
	CauseCall
	// CauseSweep: the object is an orphan that a sweep found.
	CauseSweep
)

var causeNames = [...]string{
	"change", "refresh", "retry", "requeue", "released", "recheck", "probe", "breaker closed", "resumed", "call", "sweep",
}

// String returns the name of the cause.
func (c Cause) String() string { return causeNames[c] }
