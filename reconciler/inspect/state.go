// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

// State is the state of an object on its way to the target. Explanations, lists, waits, figures and
// metrics use the same names. JSON contains them as they are here, and they do not change.
type State string

// The states of an object. An object is in exactly one of them.
const (
	// StateAbsent: the table has no such row, and the loop tracks no such object. The reason says if the loop
	// may not have read its deletion yet.
	StateAbsent State = "absent"
	// StateNoStatus: the rows carry the status, and the program never set the status of the row to
	// Pending, or set it to a status that asks for no work. The row is left alone.
	StateNoStatus State = "no status"
	// StateDone: it is in the target.
	StateDone State = "done"
	// StateUnseen: the loop has not read its change yet. The change may have come while an operation
	// on the object was running.
	StateUnseen State = "unseen"
	// StateReady: the loop has read its change, and the object waits for its turn.
	StateReady State = "ready"
	// StateInFlight: an operation on it is running, or has been handed to a worker.
	StateInFlight State = "in flight"
	// StateStuck: its operation is running on a worker, well past its deadline or for a minute without
	// one.
	StateStuck State = "stuck"
	// StateQueued: an operation on another object of its group is running.
	StateQueued State = "queued"
	// StateHeld: it changed shortly after a failure, and waits for the end of its minimum backoff.
	StateHeld State = "held"
	// StateRetry: it failed, and waits for the end of its backoff.
	StateRetry State = "retry"
	// StateRequeue: it is in the target, and its operation asked for another run later.
	StateRequeue State = "requeue"
	// StateBlocked: it waits for a dependency that its operation named.
	StateBlocked State = "blocked"
	// StateTripped: it waits for the breaker to close.
	StateTripped State = "tripped"
	// StatePaused: it has work to do, and it or the whole reconciler is paused.
	StatePaused State = "paused"
	// StateTerminal: it failed for good. It is not tried again until it changes, is marked Pending or
	// Refreshing, or until Retry or Reapply.
	StateTerminal State = "terminal"
	// StateUnknown: the loop was not started, has stopped, or did not answer, and the row does not
	// show the state.
	StateUnknown State = "unknown"
)

// Cause is the reason why an operation was run.
type Cause string

// The causes of an operation.
const (
	// CauseChange: the object was inserted, changed or deleted.
	CauseChange Cause = "change"
	// CauseRefresh: the object was unchanged, and had to be applied again: a refresh, a trigger or
	// reconciler.Loop.Reapply.
	CauseRefresh Cause = "refresh"
	// CauseRetry: the last attempt had failed, and the backoff was over.
	CauseRetry Cause = "retry"
	// CauseRequeue: the last operation had asked for another run.
	CauseRequeue Cause = "requeue"
	// CauseReleased: a watch channel that the object was blocked on was closed.
	CauseReleased Cause = "released"
	// CauseRecheck: the object was blocked, and was tried again after a while without a release: see
	// reconciler.Settings.BlockedRecheck.
	CauseRecheck Cause = "recheck"
	// CauseProbe: the breaker was open, and the operation tested whether the target is up again.
	CauseProbe Cause = "probe"
	// CauseBreaker: the breaker that had held the object back was closed.
	CauseBreaker Cause = "breaker closed"
	// CauseResumed: the pause was over.
	CauseResumed Cause = "resumed"
	// CauseCall: reconciler.Loop.Retry was called.
	CauseCall Cause = "call"
	// CauseOrphan: a resync had found the object in the target, and the table has no row for it.
	CauseOrphan Cause = "orphan"
	// CauseRepair: a resync had found that the target did not have the object, or had a different one.
	CauseRepair Cause = "repair"
	// CauseAdopted: the object had changed, or had failed, and an equal one was found in the target: by the first listing,
	// by another one, or by a Get. No operation was called.
	CauseAdopted Cause = "adopted"
	// CauseVerify: reconciler.Loop.Verify was called, and the target was not as the row wants it.
	CauseVerify Cause = "verify"
)

// Reason is the event that woke the loop for a round.
type Reason string

// The reasons of a round.
const (
	// ReasonStart: the reconciler started.
	ReasonStart Reason = "start"
	// ReasonChange: the table changed.
	ReasonChange Reason = "change"
	// ReasonDue: a retry was due, or other work that waits for a time.
	ReasonDue Reason = "due"
	// ReasonReleased: a watch channel that an object was blocked on was closed.
	ReasonReleased Reason = "released"
	// ReasonMore: the round before left work undone.
	ReasonMore Reason = "more"
	// ReasonPrune: a prune or a resync was due, or a listing had lasted too long.
	ReasonPrune Reason = "prune"
	// ReasonPruneCall: Prune or ApproveResync was called.
	ReasonPruneCall Reason = "prune-call"
	// ReasonListed: a listing of the target had ended.
	ReasonListed Reason = "listed"
	// ReasonInitialized: the table's initialisers finished.
	ReasonInitialized Reason = "initialized"
	// ReasonFinished: a worker finished an operation.
	ReasonFinished Reason = "finished"
	// ReasonStuck: an operation was stuck.
	ReasonStuck Reason = "stuck"
	// ReasonCall: the settings were changed, or a pause, a retry, a wait or a query came.
	ReasonCall Reason = "call"
	// ReasonStop: the reconciler was stopped.
	ReasonStop Reason = "stop"
)

// Result is the outcome of an operation.
type Result string

// The results of an operation.
const (
	// ResultDone: an update put the object into the target, or a deletion removed it.
	ResultDone Result = "done"
	// ResultFailed: the operation failed, and is retried after a backoff.
	ResultFailed Result = "failed"
	// ResultTerminal: the operation failed for good. It is not retried until the object changes, or
	// until Retry.
	ResultTerminal Result = "terminal"
	// ResultBlocked: the object waits for a dependency that the operation named.
	ResultBlocked Result = "blocked"
	// ResultRequeue: the operation succeeded, and asked for another run later.
	ResultRequeue Result = "requeue"
)

// Failed reports whether the operation failed, with or without a retry to come.
func (r Result) Failed() bool { return r == ResultFailed || r == ResultTerminal }

// Condition is the condition of a whole reconciler.
type Condition string

// The conditions of a reconciler.
const (
	ConditionRunning Condition = "running"
	// ConditionPaused: the whole reconciler is paused. With paused objects only, it is running.
	ConditionPaused     Condition = "paused"
	ConditionNotStarted Condition = "not started"
	ConditionStopped    Condition = "stopped"
	// ConditionBusy: the loop did not answer within 100 ms because it is in an operation.
	ConditionBusy Condition = "busy"
)
