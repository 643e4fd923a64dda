// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import (
	"context"

	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/metrics"
)

// Inspector is a reconciler that can be read without the type of its objects. Commands, pages and
// collectors use it. Every reconciler.Loop is one, and so is every derivation of package derive.
//
// An object is named by the text of its key, as in [Explanation].Key. All methods are safe from any
// goroutine. Apart from WaitAll and WaitKey they wait at most 100 ms for a loop that is in an
// operation; Keys and Figures do not wait for it at all.
type Inspector interface {
	// ID returns the name of the reconciler.
	ID() ID

	// Explain returns the state of an object, and why it is, or is not, reconciled. It returns no
	// error: if the loop does not answer, the explanation contains what the row shows, and a note
	// with the reason.
	Explain(ctx context.Context, key string) Explanation
	// Snapshot returns the state of the whole reconciler. If the loop does not answer,
	// [Snapshot].Condition says why.
	Snapshot(ctx context.Context) Snapshot
	// Objects returns one page of a list of objects. It returns an error if the query is not valid.
	//
	// Only the loop tracks deletions. For [ObjectQuery].Status "Deleted" the error is therefore
	// [ErrNotStarted], [ErrStopped] or a *[BusyError] if the loop does not answer. Other lists come
	// from the table and have no such error: without an answer from the loop, Attempts and Next are
	// zero, and State is what the row shows.
	Objects(ctx context.Context, q ObjectQuery) (ObjectPage, error)
	// Keys returns the texts of up to limit keys with the prefix, to complete what a user types. It
	// reads the first 20,000 rows of the table only.
	Keys(prefix string, limit int) []string

	metrics.Source

	// WaitAll waits until everything that is in the table now has reached the milestone, as
	// reconciler.Loop.Wait does. The error is that of ctx, [ErrStopped], or
	// reconciler.ErrInOperation in an operation of the same reconciler.
	WaitAll(ctx context.Context, m progress.Milestone) (Unapplied, error)
	// WaitKey waits until one object has reached the milestone, as reconciler.Loop.WaitFor does. The
	// object may be a deletion that is not carried out yet. The errors are those of WaitAll,
	// reconciler.ErrNoStatus, and [ErrNotFound] if the key is neither in the table nor tracked by the
	// loop; a deletion is done then.
	WaitKey(ctx context.Context, key string, m progress.Milestone) (Unapplied, error)
}

// Controller is an [Inspector] that can also act on the reconciler: it has the actions of an
// operator. All methods are safe from any goroutine.
//
// Keys are as in [Inspector].Explain, at most [MaxKeys] in a call: a call with more does nothing and
// returns an error. An error about one key does not stop the action on the other keys.
type Controller interface {
	Inspector

	// Retry makes objects due now that wait for a retry, a requeue, a release or a minimum backoff,
	// and objects that failed for good. It acts on the given keys, or on all objects if there are
	// none. It returns the number of objects that it made due. It waits until the loop has taken the
	// call, not for the operations.
	//
	// The error is [ErrNotFound] for a key that is neither in the table nor tracked, [ErrNotStarted],
	// [ErrStopped], that of ctx, or reconciler.ErrInOperation in an operation of the same reconciler.
	Retry(ctx context.Context, keys ...string) (int, error)
	// Refresh has Done objects applied again: the given keys, and the result is their number; an
	// object that is not Done is left as it is. Without keys all Done objects are refreshed, at the
	// rate of the refresh limit, and the result is 0.
	//
	// The error is [ErrNotFound] for a key that is not in the table, [ErrStopped], that of ctx, or
	// reconciler.ErrInOperation in an operation of the same reconciler.
	Refresh(ctx context.Context, keys ...string) (int, error)
	// Prune requests a prune, or a resync if the reconciler lists its target. It runs as soon as the table is initialised
	// and the reconciler is not paused. Prune does not wait for it.
	Prune()
	// Pause stops the reconciler from starting operations and prunes, until Resume.
	Pause()
	// Resume ends the pause, whether it is one of the reconciler or of objects.
	Resume()
}

// LoopController is a [Controller] with what only the loop of a reconciler has: a journal, resyncs, and pauses of
// single objects. Every reconciler.Loop is one, and a derivation is not: use a type assertion to find out.
type LoopController interface {
	Controller

	// Operations and Rounds do not wait for a loop that is in an operation.
	//
	// Operations returns operations from the journal, the oldest first.
	Operations(q OperationQuery) []Operation
	// Rounds returns the latest rounds in the journal, the oldest first.
	Rounds() []Round

	// Plan lists the target and returns what a resync would do, without doing it: see reconciler.Loop.Plan. It waits
	// for the listing: give ctx a deadline.
	Plan(ctx context.Context) (Plan, error)
	// ApproveResync requests a resync that may exceed its budget. It returns false, and does nothing, if
	// the last resync did not stop at its budget. It does not wait for the resync.
	ApproveResync() bool
	// PauseOnly pauses exactly the objects with the given keys, whether or not they exist, in place of
	// those that an earlier call of PauseOnly has paused. [Snapshot].Paused lists them. It returns an
	// error, and changes nothing, if there is another pause: of the whole reconciler, or by a predicate.
	PauseOnly(keys ...string) error
}

// ID is the name of a reconciler.
type ID struct {
	// Module is the text of reconciler.Config.ModuleID, Name that of reconciler.WithName. Either may
	// be empty.
	Module string `json:"module"`
	Name   string `json:"name"`
	// Table is the name of the reconciled table.
	Table string `json:"table"`
}

// String returns "module/name", or the one of the two that is not empty, or the name of the table if
// both are empty. With a module, metrics use this text as the name of the reconciler.
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
