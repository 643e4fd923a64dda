// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
)

// Snapshot says how a reconciler does as a whole, at one time: the answer of
// [Inspector].
type Snapshot struct {
	// Reconciler is [ID.String].
	Reconciler string `json:"reconciler"`
	ID         ID     `json:"id"`
	// At is when this was so.
	At time.Time `json:"at"`
	// Condition is how the reconciler is as a whole. If it is [ConditionBusy], the loop did not
	// answer within 100 ms, Busy says in which operation, and the rest is as of the end of its
	// last round.
	Condition Condition `json:"condition"`
	Busy      string    `json:"busy,omitempty"`
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

	// Paused are the objects that reconciler.Loop.PauseKeys has paused, the first hundred by key,
	// PausedOmitted how many others are. PausedByPredicate: reconciler.Loop.PauseObjects says which objects
	// are paused beside them.
	Paused            []string `json:"paused,omitempty"`
	PausedOmitted     int      `json:"paused_omitted,omitempty"`
	PausedByPredicate bool     `json:"paused_by_predicate,omitempty"`

	// Settings are those in force, as text.
	Settings []SettingText `json:"settings"`
}

// SettingText is a setting for people to read.
type SettingText struct {
	// Name is that of the field of reconciler.Settings, Value its value; limiters are "100/s, burst
	// 1", or "none".
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ErrorClass is a kind of failure.
type ErrorClass struct {
	// Class is what reconciler.Config.ErrorClass returns for it, or else the text of the error, without
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
