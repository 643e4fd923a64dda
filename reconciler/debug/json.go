// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
)

// snapshot is a [reconciler.Snapshot] as machines get it: with a name for the whole, and
// lists that are never null.
type snapshot struct {
	Reconciler string `json:"reconciler"`
	reconciler.Snapshot
	States   []metrics.StateCount     `json:"states"`
	Lanes    []metrics.StateCount     `json:"lanes"`
	Settings []reconciler.SettingText `json:"settings"`
}

func snapshotOf(s reconciler.Snapshot) snapshot {
	return snapshot{
		Reconciler: s.ID.String(), Snapshot: s,
		States: listed(s.States), Lanes: listed(s.Lanes), Settings: listed(s.Settings),
	}
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
