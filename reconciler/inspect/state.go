// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

// State is where an object is on its way to the target. Explanations, lists, waits, figures and
// metrics use the same names.
type State string

// The states of an object. An object is in exactly one.
const (
	// StateAbsent: neither the table nor the reconciler knows of such an object.
	StateAbsent State = "absent"
	// StateNoStatus: no reconciler has written the status of the row, or none at all, and it asks
	// for nothing: the row is left alone.
	StateNoStatus State = "no status"
	// StateDone: it is in the target.
	StateDone State = "done"
	// StateUnseen: its change has not been looked at yet; for one that was worked on, the change
	// that came meanwhile.
	StateUnseen State = "unseen"
	// StateReady: it waits for its turn.
	StateReady State = "ready"
	// StateInFlight: an operation on it is running, or has been handed to a worker.
	StateInFlight State = "in flight"
	// StateStuck: its operation ignores its deadline, and was left behind.
	StateStuck State = "stuck"
	// StateQueued: another object of its group is being worked on.
	StateQueued State = "queued"
	// StateHeld: it changed, and waits until its minimum backoff has passed.
	StateHeld State = "held"
	// StateRetry: it failed, and waits for its backoff.
	StateRetry State = "retry"
	// StateRequeue: it is in the target, and asked to be run again later.
	StateRequeue State = "requeue"
	// StateBlocked: it waits for what its operation named.
	StateBlocked State = "blocked"
	// StateTripped: it waits for a breaker to close.
	StateTripped State = "tripped"
	// StatePaused: it, or the whole reconciler, is paused.
	StatePaused State = "paused"
	// StateTerminal: it failed for good, until it changes.
	StateTerminal State = "terminal"
	// StateUnknown: the reconciler has not been started, has stopped, or was too busy to
	// be asked, and the row does not tell.
	StateUnknown State = "unknown"
)

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
	// CauseCall: somebody called reconciler.Loop.Retry.
	CauseCall Cause = "call"
	// CauseSweep: a sweep had found it in the target, and nobody wants it.
	CauseSweep Cause = "sweep"
)

// Reason says why a round ran.
type Reason string

const (
	// ReasonStart: the reconciler started.
	ReasonStart Reason = "start"
	// ReasonChange: the table changed.
	ReasonChange Reason = "change"
	// ReasonDue: a retry, or what else waits for a clock, was due.
	ReasonDue Reason = "due"
	// ReasonReleased: what an object was blocked on happened.
	ReasonReleased Reason = "released"
	// ReasonMore: the round before left work behind.
	ReasonMore Reason = "more"
	// ReasonPrune: a prune was due.
	ReasonPrune Reason = "prune"
	// ReasonPruneCall: reconciler.Reconciler.Prune was called.
	ReasonPruneCall Reason = "prune-call"
	// ReasonInitialized: the table's initialisers finished.
	ReasonInitialized Reason = "initialized"
	// ReasonFinished: a worker finished an operation.
	ReasonFinished Reason = "finished"
	// ReasonStuck: an operation ignored its deadline.
	ReasonStuck Reason = "stuck"
	// ReasonCall: somebody changed a setting, paused or resumed, or asked a question.
	ReasonCall Reason = "call"
	// ReasonStop: the reconciler is being stopped.
	ReasonStop Reason = "stop"
)

// Result is what an operation came back with.
type Result string

// The results of an operation.
const (
	// ResultDone: the object is in the target, or, if deleted, no longer.
	ResultDone Result = "done"
	// ResultFailed: it is retried after its backoff.
	ResultFailed Result = "failed"
	// ResultTerminal: it is not retried until the object changes.
	ResultTerminal Result = "terminal"
	// ResultBlocked: the object waits for what the operation named.
	ResultBlocked Result = "blocked"
	// ResultRequeue: the object is in the target, and asked to be run again.
	ResultRequeue Result = "requeue"
)

// Failed reports whether the operation failed, for good or until a retry.
func (r Result) Failed() bool { return r == ResultFailed || r == ResultTerminal }

// Condition is how a reconciler is as a whole.
type Condition string

// The conditions of a reconciler.
const (
	ConditionRunning    Condition = "running"
	ConditionPaused     Condition = "paused"
	ConditionNotStarted Condition = "not started"
	ConditionStopped    Condition = "stopped"
	// ConditionBusy: it did not answer in time, since it is in an operation.
	ConditionBusy Condition = "busy"
)
