// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

// Cause says why an operation was run.
type Cause string

const (
	// CauseChange: the object was inserted, changed or deleted.
	CauseChange Cause = "change"
	// CauseRefresh: it was marked for a refresh.
	CauseRefresh Cause = "refresh"
	// CauseRetry: it had failed, and its backoff was over.
	CauseRetry Cause = "retry"
	// CauseRequeue: it had asked to be run again.
	CauseRequeue Cause = "requeue"
	// CauseReleased: something that it was blocked on happened.
	CauseReleased Cause = "released"
	// CauseRecheck: it was blocked for so long that it was tried for safety.
	CauseRecheck Cause = "recheck"
	// CauseProbe: it was tried to see whether the target is up again.
	CauseProbe Cause = "probe"
	// CauseBreaker: a breaker had closed.
	CauseBreaker Cause = "breaker closed"
	// CauseResumed: its pause was over.
	CauseResumed Cause = "resumed"
	// CauseCall: somebody called [Loop.Retry].
	CauseCall Cause = "call"
	// CauseSweep: a sweep had found it in the target, and nobody wants it.
	CauseSweep Cause = "sweep"
)
