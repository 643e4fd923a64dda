// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// snapshot is a [reconciler.Snapshot] as machines get it: with a name for the whole, and
// all names in the same style.
type snapshot struct {
	Reconciler string `json:"reconciler"`
	reconciler.Snapshot
	ID       id                       `json:"id"`
	States   []stateCount             `json:"states"`
	Lanes    []stateCount             `json:"lanes"`
	Settings []reconciler.SettingText `json:"settings"`
}

type id struct {
	Module string `json:"module"`
	Name   string `json:"name"`
	Table  string `json:"table"`
}

type stateCount struct {
	State string `json:"state"`
	Count int    `json:"count"`
}

func snapshotOf(s reconciler.Snapshot) snapshot {
	return snapshot{
		Reconciler: s.ID.String(), Snapshot: s, ID: id(s.ID),
		States: counts(s.States), Lanes: counts(s.Lanes), Settings: listed(s.Settings),
	}
}

func counts(states []metrics.StateCount) []stateCount {
	out := make([]stateCount, len(states))
	for i, s := range states {
		out[i] = stateCount(s)
	}
	return out
}

// listed returns a list that is [] in JSON, not null, when it is empty.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// round is a [reconciler.Round] as machines get it: its operations are among the events.
type round struct {
	Round      uint64            `json:"round"`
	Reason     reconciler.Reason `json:"reason"`
	Started    time.Time         `json:"started"`
	Took       time.Duration     `json:"took"`
	Changes    int               `json:"changes"`
	Waited     int               `json:"waited"`
	Refreshes  int               `json:"refreshes"`
	Returned   int               `json:"returned"`
	Operations int               `json:"operations"`
	Written    int               `json:"written"`
	Lost       int               `json:"lost"`
	Conflicts  int               `json:"conflicts"`
	CommitTook time.Duration     `json:"commit_took"`
	Prune      *prune            `json:"prune,omitempty"`
}

type prune struct {
	Error  string        `json:"error,omitempty"`
	Took   time.Duration `json:"took"`
	Listed int           `json:"listed"`
	Swept  int           `json:"swept"`
}

func roundOf(r reconciler.Round) round {
	out := round{
		Round: r.Sequence, Reason: r.Reason, Started: r.Started, Took: r.Took,
		Changes: r.Changes, Waited: r.Waited, Refreshes: r.Refreshes, Returned: r.Returned,
		Operations: len(r.Operations), Written: r.Written, Lost: r.Lost, Conflicts: r.Conflicts,
		CommitTook: r.CommitTook,
	}
	if p := r.Prune; p != nil {
		out.Prune = &prune{Error: p.Error, Took: p.Took, Listed: p.Listed, Swept: p.Swept}
	}
	return out
}
