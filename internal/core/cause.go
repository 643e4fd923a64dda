// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// Cause is the reason of an operation.
type Cause uint8

const (
	// CauseChange: the object was inserted, changed or deleted. It is also the stored cause of
	// entries whose real cause follows from their state or their lane.
	CauseChange Cause = iota
	// CauseRefresh: the object had not changed, and its age, a call or a trigger asked for a refresh.
	CauseRefresh
	// CauseRetry: the last attempt failed, and the backoff is over.
	CauseRetry
	// CauseRequeue: the last outcome asked for another run.
	CauseRequeue
	// CauseReleased: the key was blocked, and was released.
	CauseReleased
	// CauseRecheck: the key was blocked, and its recheck time has come.
	CauseRecheck
	// CauseProbe: the breaker is open, and the operation shows whether the target works again. The caller sets this
	// cause.
	CauseProbe
	// CauseBreaker: the breaker that the key waited for closed.
	CauseBreaker
	// CauseResumed: the object was paused and is paused no longer.
	CauseResumed
	// CauseCall: RetryNow or RetryAllNow was called.
	CauseCall
	// CauseOrphan: a resync found the object in the target, and the table has no row for it.
	CauseOrphan
	// CauseRepair: a resync found that the target does not have the object, or has a different one.
	CauseRepair
	// CauseAdopted: the object was not applied, and an equal one was found in the target. No operation is called. The caller
	// sets this cause.
	CauseAdopted
	// CauseVerify: somebody asked whether the target is as the row wants it.
	CauseVerify
)

var causeNames = [...]string{
	"change", "refresh", "retry", "requeue", "released", "recheck", "probe", "breaker closed", "resumed", "call", "orphan",
	"repair", "adopted", "verify",
}

// String returns the name of the cause.
func (c Cause) String() string { return causeNames[c] }
