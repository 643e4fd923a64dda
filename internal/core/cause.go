// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Cause is why an item is run.
type Cause uint8

const (
	// CauseChange: the object was inserted, changed or deleted. It is also what the core keeps of
	// an entry whose cause its state or its lane tells.
	CauseChange Cause = iota
	// CauseRefresh: it was marked for a refresh.
	CauseRefresh
	// CauseRetry: it had failed, and its backoff was over.
	CauseRetry
	// CauseRequeue: it had asked to be run again.
	CauseRequeue
	// CauseReleased: what it was blocked on happened.
	CauseReleased
	// CauseRecheck: it was blocked for so long that it was tried for safety.
	CauseRecheck
	// CauseProbe: it tells whether the target is up again.
	CauseProbe
	// CauseBreaker: its breaker closed.
	CauseBreaker
	// CauseResumed: it is not paused any more.
	CauseResumed
	// CauseCall: somebody asked for it.
	CauseCall
	// CauseSweep: a sweep found it.
	CauseSweep
)

var causeNames = [...]string{
	"change", "refresh", "retry", "requeue", "released", "recheck", "probe", "breaker closed", "resumed", "call", "sweep",
}

// String returns the name of the cause.
func (c Cause) String() string { return causeNames[c] }
