// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
)

// Snapshot is the state of a whole reconciler at one time. [Inspector].Snapshot returns it.
type Snapshot struct {
	// Reconciler is [ID.String].
	Reconciler string `json:"reconciler"`
	ID         ID     `json:"id"`
	// At is the time of the snapshot.
	At time.Time `json:"at"`
	// Condition is the condition of the reconciler. If it is [ConditionBusy], Busy names the operation
	// that the loop is in, and the figures of the loop are from the end of its last round.
	Condition Condition `json:"condition"`
	Busy      string    `json:"busy,omitempty"`
	// Started is the start time; zero before the start.
	Started time.Time `json:"started,omitzero"`

	// Objects is the number of rows. Initialized reports whether the table is initialised; if not,
	// Waiting lists the initialisers that have not finished.
	Objects     int      `json:"objects"`
	Initialized bool     `json:"initialized"`
	Waiting     []string `json:"waiting_for_initializers,omitempty"`

	// States has the number of objects for each state of [metrics.Figures], Lanes the number of
	// ready objects for each lane. Unseen is about the number of changes that the loop has not read.
	States []metrics.StateCount `json:"states"`
	Lanes  []metrics.StateCount `json:"lanes"`
	Unseen int                  `json:"unseen"`
	// Failing and Blocked are the numbers of objects whose last attempt failed, or was blocked.
	Failing int `json:"failing"`
	Blocked int `json:"blocked"`

	// Revision is the revision of the table. The loop has read all changes up to Observed, and
	// attempted all changes up to Attempted. LowWatermark is the lowest revision that is not applied;
	// zero if all are.
	Revision     uint64 `json:"revision"`
	Observed     uint64 `json:"observed"`
	Attempted    uint64 `json:"attempted"`
	LowWatermark uint64 `json:"low_watermark"`
	// OldestUnapplied is the time when the oldest change that is not applied was written; zero if
	// all are applied.
	OldestUnapplied time.Time `json:"oldest_unapplied,omitzero"`

	// Errors are up to 32 classes of failures, that with the latest failure first.
	Errors []ErrorClass `json:"errors,omitempty"`
	// Breaker is a line about the breaker; empty if it is not open. Stuck describes the stuck operations of
	// the workers, the longest first, one line each. PruneFailure is the error of the last prune; empty
	// if it succeeded.
	Breaker      string   `json:"breaker,omitempty"`
	Stuck        []string `json:"stuck,omitempty"`
	PruneFailure string   `json:"prune_failure,omitempty"`
	// AwaitsApproval: PruneFailure is that of a resync that has exceeded its budget. A person has to approve the next one.
	AwaitsApproval bool `json:"awaits_approval,omitempty"`
	// NextPrune is the time of the next prune or resync; zero if none is due.
	NextPrune time.Time `json:"next_prune,omitzero"`
	// Lists reports whether the reconciler lists its target to compare it with the table: see reconciler.Config.Lister.
	// Listing is since when the target is being listed; zero if it is not. AwaitsListing is true while no operation is
	// called before the first listing has ended. Resync is the last resync; nil if there was none.
	Lists         bool      `json:"lists,omitempty"`
	Listing       time.Time `json:"listing,omitzero"`
	AwaitsListing bool      `json:"awaits_first_listing,omitempty"`
	Resync        *Resync   `json:"resync,omitempty"`

	// Paused lists the keys of reconciler.Loop.PauseOnly, as it got them, in the order of the table.
	// PausedByPredicate is true while reconciler.Loop.PauseObjects is in force; the objects that it
	// pauses are not listed.
	Paused            []string `json:"paused,omitempty"`
	PausedByPredicate bool     `json:"paused_by_predicate,omitempty"`

	// Settings are the settings in force.
	Settings []SettingText `json:"settings"`
	// Output is the table that a derivation fills; empty for a loop.
	Output string `json:"output,omitempty"`

	// Calls, Edges and EdgesToAll are those of [metrics.Figures]: they are about a derivation with further inputs.
	Calls      []metrics.StateCount `json:"calls,omitempty"`
	Edges      int                  `json:"edges,omitempty"`
	EdgesToAll int                  `json:"edges_to_all,omitempty"`
}

// SettingText is a setting as text for people to read.
type SettingText struct {
	// Name is the name of the field in reconciler.Settings. Value is its value; for a limiter it is
	// like "100/s, burst 1", or "none".
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ErrorClass counts the failures of one class.
type ErrorClass struct {
	// Class is the text of the error, with "#" in place of digits and of the object's key.
	Class string `json:"class"`
	// Count is the number of failures since the reconciler started, Last the time of the last one.
	Count uint64    `json:"count"`
	Last  time.Time `json:"last"`
	// Key is the key of the object that failed last, Example the text of that error.
	Key     string `json:"key"`
	Example string `json:"example"`
}
