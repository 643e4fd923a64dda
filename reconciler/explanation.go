// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
)

// ObjectState is where an object is on its way to the target.
type ObjectState string

// The states of an object. An object is in exactly one.
const (
	// StateAbsent: neither the table nor the reconciler knows of such an object.
	StateAbsent ObjectState = "absent"
	// StateNoStatus: the row has no status, and nobody reconciles it.
	StateNoStatus ObjectState = "no status"
	// StateDone: it is in the target.
	StateDone ObjectState = "done"
	// StateUnseen: its change has not been looked at yet.
	StateUnseen ObjectState = "unseen"
	// StateReady: it waits for its turn.
	StateReady ObjectState = "ready"
	// StateInFlight: an operation on it is running, or has been handed to a worker.
	StateInFlight ObjectState = "in flight"
	// StateStuck: its operation ignores its deadline, and was left behind.
	StateStuck ObjectState = "stuck"
	// StateQueued: another object of its group is being worked on.
	StateQueued ObjectState = "queued"
	// StateHeld: it changed, and waits until its minimum backoff has passed.
	StateHeld ObjectState = "held"
	// StateRetry: it failed, and waits for its backoff.
	StateRetry ObjectState = "retry"
	// StateRequeue: it is in the target, and asked to be run again later.
	StateRequeue ObjectState = "requeue"
	// StateBlocked: it waits for what its operation named.
	StateBlocked ObjectState = "blocked"
	// StateTripped: it waits for a breaker to close.
	StateTripped ObjectState = "behind the breaker"
	// StatePaused: it, or the whole reconciler, is paused.
	StatePaused ObjectState = "paused"
	// StateTerminal: it failed for good, until it changes.
	StateTerminal ObjectState = "terminal"
	// StateUnknown: the reconciler has not been started, has stopped, or was too busy to
	// be asked, and the row does not tell.
	StateUnknown ObjectState = "unknown"
)

// Explanation says why an object is, or is not, reconciled: the answer of [Loop.Explain].
// Times are zero where there is nothing to tell.
type Explanation struct {
	// Reconciler is [ID.String], Key the text of the primary key, by which the object can
	// be asked for again.
	Reconciler string `json:"reconciler"`
	Key        string `json:"key"`
	// At is when this was so.
	At time.Time `json:"at"`

	// State is where the object is, Since from when on, as far as is known, and Why says
	// it in a sentence.
	State ObjectState `json:"state"`
	Since time.Time   `json:"since,omitzero"`
	Why   string      `json:"why"`

	// Found: the table has the row, which has Status at Revision. Deleted: the object is
	// to leave the target.
	Found    bool   `json:"found"`
	Deleted  bool   `json:"deleted,omitempty"`
	Status   string `json:"status,omitempty"`
	Revision uint64 `json:"revision,omitempty"`

	// Attempts is how many attempts in a row have failed, LastAttempt when the last one
	// ended, Error what the last failure said.
	Attempts    int       `json:"attempts,omitempty"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	Error       string    `json:"error,omitempty"`
	// Wanted is when the change that is not applied was written.
	Wanted time.Time `json:"wanted,omitzero"`
	// Next is when the next attempt is due, if a clock says so: for a blocked object, that
	// of the recheck; behind a breaker, the next probe, which may be of another object.
	Next time.Time `json:"next,omitzero"`
	// BlockedOn is what a blocked object waits for: the reason that its operation gave.
	BlockedOn string `json:"blocked_on,omitempty"`
	// Lane is by which the change came; Ahead is how many objects come before this one,
	// in its lane or its group, or about how many changes if it is unseen; no more than
	// 1000 are counted. Group is the group that it waits in, Holder the key of the object
	// that is worked on there.
	Lane   string `json:"lane,omitempty"`
	Ahead  int    `json:"ahead,omitempty"`
	Group  string `json:"group,omitempty"`
	Holder string `json:"holder,omitempty"`

	// Notes are what holds of the whole reconciler and matters to the object.
	Notes []string `json:"notes,omitempty"`
	// Events are the latest operations on the object, the latest last, as far as the
	// journal has them; it keeps failures for longer than the rest.
	Events []Event `json:"events,omitempty"`
}

// Event is one operation, and how it came about: an entry of the journal.
type Event struct {
	// Round is the number of the round that committed it, At when that began.
	Round uint64    `json:"round"`
	At    time.Time `json:"at"`
	// Key is the text of the object's key.
	Key string `json:"key"`
	// Operation is "update" or "delete", Cause why it was run; see [Cause].
	Operation string `json:"operation"`
	Cause     Cause  `json:"cause"`
	// Revision is that of the version applied, or of the deletion; Attempt counts from 1,
	// and starts anew after a success.
	Revision uint64 `json:"revision"`
	Attempt  int    `json:"attempt"`
	// Result is "done", "failed", "terminal", "blocked" or "requeue", Error its text.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	// Note is what the operation said of itself with [Note].
	Note string `json:"note,omitempty"`
	// Lost: the object changed meanwhile, so that the result says nothing of it.
	// Conflict: another reconciler had written the object, and the status was added.
	Lost     bool `json:"lost,omitempty"`
	Conflict bool `json:"conflict,omitempty"`
	// Took is how long the operation, or the batch that it was in, took.
	Took time.Duration `json:"took"`
}

// EventQuery says which events are wanted. The zero value means all there are.
type EventQuery struct {
	// Key is the text of one object's key; empty means all.
	Key string
	// Since leaves out those of rounds that began before; zero means none.
	Since time.Time
	// Limit is how many of the latest; zero means all.
	Limit int
}

// ObjectQuery says which objects to list.
type ObjectQuery struct {
	// Status is the kind of status that a row has to have: "Error", "Blocked",
	// "Pending", "Refreshing", "Done", "Unset" or "" for all, without regard to case; or
	// "Deleted" for deletions that are not carried out.
	Status string
	// After is [ObjectPage].Next of the page before; empty for the first.
	After string
	// Limit is how many; zero means 50, and no more than 1000 are given.
	Limit int
}

// ObjectPage is a page of a list of objects: those longest unwritten first.
type ObjectPage struct {
	Objects []ObjectLine `json:"objects"`
	// Next is what to ask for to go on; empty if there are no more. A page may be short,
	// or empty, and have a next one: no more than 20,000 rows are looked at for one.
	Next string `json:"next,omitempty"`
	// Error says what was wrong with the question, or why there is no answer.
	Error string `json:"error,omitempty"`
}

// ObjectLine is an object in a list.
type ObjectLine struct {
	Key    string `json:"key"`
	Status string `json:"status"`
	// Since is when the status was written; that of a failure is not written again while its text is
	// the same. Of a deletion it is when that came.
	Since    time.Time `json:"since,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	Revision uint64    `json:"revision"`
	// Attempts is how many attempts in a row have failed, State where the object is, and
	// Next when the next attempt is due; as far as the reconciler could be asked.
	Attempts int         `json:"attempts,omitempty"`
	State    ObjectState `json:"state"`
	Next     time.Time   `json:"next,omitzero"`
}

// Snapshot says how a reconciler does as a whole, at one time: the answer of
// [Loop.Snapshot].
type Snapshot struct {
	ID ID        `json:"id"`
	At time.Time `json:"at"`
	// Condition is "running", "paused", "not started", "stopped" or "busy": the loop did
	// not answer within 100 ms, Busy says in which operation, and the rest is as of the
	// end of its last round.
	Condition string `json:"condition"`
	Busy      string `json:"busy,omitempty"`
	// Started is when it was started.
	Started time.Time `json:"started,omitzero"`

	// Objects is the number of rows, Initialized whether the table is; if not, Waiting
	// are the initialisers that are still to finish.
	Objects     int      `json:"objects"`
	Initialized bool     `json:"initialized"`
	Waiting     []string `json:"waiting_for_initializers,omitempty"`

	// States has the number of objects in each state of [metrics.Figures], Lanes those
	// that are ready by lane, Unseen about how many changes have not been looked at.
	States []metrics.StateCount `json:"states"`
	Lanes  []metrics.StateCount `json:"lanes"`
	Unseen int                  `json:"unseen"`
	// Failing and Blocked are how many objects' last attempt failed or was blocked.
	Failing int `json:"failing"`
	Blocked int `json:"blocked"`

	// Revision is the table's, Observed up to which the reconciler has looked,
	// Attempted up to which all has been attempted, LowWatermark the lowest that is not
	// applied, zero if there is none.
	Revision     uint64 `json:"revision"`
	Observed     uint64 `json:"observed"`
	Attempted    uint64 `json:"attempted"`
	LowWatermark uint64 `json:"low_watermark"`
	// OldestUnapplied is when the oldest change was written that is not applied.
	OldestUnapplied time.Time `json:"oldest_unapplied,omitzero"`

	// OperationsPerSecond, FailuresPerSecond and RoundsPerSecond are means over the last
	// ten seconds.
	OperationsPerSecond float64 `json:"operations_per_second"`
	FailuresPerSecond   float64 `json:"failures_per_second"`
	RoundsPerSecond     float64 `json:"rounds_per_second"`

	// Errors are the latest kinds of failures, the latest first.
	Errors []ErrorClass `json:"errors,omitempty"`
	// Breakers are the breakers that are open, Stuck the operations that were left behind,
	// a line each. BreakersOmitted is how many breakers are open beside the ten of Breakers,
	// which are the first by class; zero if all are there. PruneFailure is why the last prune
	// failed.
	Breakers        []string `json:"breakers,omitempty"`
	BreakersOmitted int      `json:"breakers_omitted,omitempty"`
	Stuck           []string `json:"stuck,omitempty"`
	PruneFailure    string   `json:"prune_failure,omitempty"`
	// Sharers are the other running reconcilers that have the same status field of the table, as
	// [ID.String], as far as the registry has them: what one of them writes, all take for theirs.
	Sharers []string `json:"sharers,omitempty"`
	// NextPrune is when the next prune is due.
	NextPrune time.Time `json:"next_prune,omitzero"`

	// Paused are the objects that [Loop.PauseKeys] has paused, the first hundred by key,
	// PausedOmitted how many others are. PausedByPredicate: [Loop.PauseObjects] says which objects
	// are paused beside them.
	Paused            []string `json:"paused,omitempty"`
	PausedOmitted     int      `json:"paused_omitted,omitempty"`
	PausedByPredicate bool     `json:"paused_by_predicate,omitempty"`

	// Settings are those in force, as text.
	Settings []SettingText `json:"settings"`
}

// SettingText is a setting for people to read.
type SettingText struct {
	// Name is that of the field of [Settings], Value its value; limiters are "100/s, burst
	// 1", or "none".
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ErrorClass is a kind of failure.
type ErrorClass struct {
	// Class is what [Config].ErrorClass returns for it, or else the text of the error, without
	// the key of the object and digits, which are "#".
	Class string `json:"class"`
	// Count is how often it happened since the reconciler started, Last when the last time.
	Count uint64    `json:"count"`
	Last  time.Time `json:"last"`
	// Key and Example are of the last one.
	Key     string `json:"key"`
	Example string `json:"example"`
}

// Sample is how a reconciler stood in one second.
type Sample struct {
	At time.Time `json:"at"`
	// Pending is how many objects or changes waited for their first attempt, the unseen
	// among them; InFlight, Failing and Blocked are those of [Snapshot].
	Pending  int `json:"pending"`
	InFlight int `json:"in_flight"`
	Failing  int `json:"failing"`
	Blocked  int `json:"blocked"`
	// Operations and Failures are those of that second.
	Operations int `json:"operations"`
	Failures   int `json:"failures"`
}
