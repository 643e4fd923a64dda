// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"context"

	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/metrics"
)

// Inspector is a reconciler to those who look at it without knowing the type of its
// objects: commands, pages, collectors. Every reconciler.Loop is one. Objects are known by the
// text of their key, as [Explanation].Key has it. All methods are safe from any goroutine;
// those that only tell do not wait for an operation for longer than 100 ms.
type Inspector interface {
	// ID says which reconciler it is.
	ID() ID

	// Explain says why an object is, or is not, reconciled.
	Explain(ctx context.Context, key string) Explanation
	// Snapshot says how the reconciler does as a whole.
	Snapshot(ctx context.Context) Snapshot
	// Objects lists objects, a page at a time. The error says what is wrong with the query, or why
	// the reconciler, which alone knows of deletions, could not be asked: [ErrNotStarted],
	// [ErrStopped] or a *[BusyError].
	Objects(ctx context.Context, q ObjectQuery) (ObjectPage, error)
	// Keys returns the texts of up to limit keys that begin with a prefix, for those who
	// complete what a person types. It may miss some of a large table.
	Keys(prefix string, limit int) []string
	// Events returns what the journal has of operations.
	Events(q EventQuery) []Event
	// Journal returns the latest rounds.
	Journal() []Round
	// Timeline returns how the reconciler stood in the last minutes.
	Timeline() []Sample

	metrics.Source

	// WaitAll is reconciler.Loop.Wait for all that is in the table now.
	WaitAll(ctx context.Context, m progress.Milestone) (Unapplied, error)
	// WaitKey is reconciler.Loop.WaitFor for one object, which need not exist any more.
	WaitKey(ctx context.Context, key string, m progress.Milestone) (Unapplied, error)
}

// Controller is an [Inspector] that acts as well: what an operator does to a running reconciler.
// All methods are safe from any goroutine.
type Controller interface {
	Inspector

	// Retry makes what waits for a retry, a requeue, a release or a change be due now,
	// objects that failed for good among them: those with the given keys, or all, if
	// there are none. It returns how many that were.
	Retry(ctx context.Context, keys ...string) (int, error)
	// Refresh marks objects that are Done for a refresh: those with the given keys, or
	// all, if there are none. It returns how many that were; all are marked in time, and
	// not counted.
	Refresh(ctx context.Context, keys ...string) (int, error)
	// Prune asks for a prune now.
	Prune()
	// ApproveSweep lets one sweep delete beyond its budget, now. It returns false, and does
	// nothing, if the last sweep did not stop at its budget.
	ApproveSweep() bool
	// Pause and Resume are for the reconciler as a whole. PauseKeys and ResumeKeys are for
	// single objects; Resume ends these pauses, too.
	Pause()
	Resume()
	PauseKeys(keys ...string) (int, error)
	ResumeKeys(keys ...string) (int, error)
}

// ID names a reconciler.
type ID struct {
	// Module and Name are those of reconciler.Config.ModuleID and reconciler.WithName; either may be empty.
	Module string `json:"module"`
	Name   string `json:"name"`
	// Table is the name of the table that it reconciles.
	Table string `json:"table"`
}

// String returns the module and the name, which metrics know the reconciler by; the table,
// if both are empty.
func (id ID) String() string {
	switch {
	case id.Module == "" && id.Name == "":
		return id.Table
	case id.Name == "":
		return id.Module
	case id.Module == "":
		return id.Name
	}
	return id.Module + "/" + id.Name
}
