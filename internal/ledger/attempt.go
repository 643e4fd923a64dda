// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// Attempt is what became of a task: its outcome, and whether the outcome was written. There is one
// for each object of a round, so it is kept small.
type Attempt[Obj any] struct {
	outcome.Result
	// Text is the text of the error or the reason of a block; nil for outcomes without a text.
	Text *string
	// Revision is the revision of the task's version. Once an outcome is written, it is the new
	// revision of the row, unless the outcome is Done and [Options].Revisions is not set.
	Revision statedb.Revision
	// Wanted is when the change was written, by the loop's clock; 0 if not known yet.
	Wanted time.Duration
	// Class is the class of the failure. It is set if Classed is true.
	Class string
	// Item is the index of the task's item. Tries is the number of earlier attempts that failed since
	// the object changed.
	Item, Tries int32
	// Cause is why the task was run.
	Cause   core.Cause
	Classed bool
	// Change reports whether the task applied a change, rather than repeating what was applied
	// before.
	Change bool
	// Again reports whether the key had waited. Only then may its status be other than Pending or
	// Refreshing.
	Again bool
	// Conflict reports whether the status was merged into a row that another reconciler had written.
	Conflict bool
	// Lost reports whether the outcome was not written because the object had changed or was deleted.
	Lost bool
	// Void reports whether the outcome does not count, because the object was asked to be applied again meanwhile.
	Void bool
	// news reports whether the outcome differs from the status in the row, and has to be written.
	news bool
}

// HasFailed reports whether the operation failed.
func (a *Attempt[Obj]) HasFailed() bool {
	return a.Kind == core.Failed || a.Kind == core.FailedForGood
}

// classify sets the outcome of a task from its error, and whether that is news. last points to the last text
// that was news, which is shared: operations that fail together mostly fail with the same text.
func (a *Attempt[Obj]) classify(t *execute.Task[Obj], r *rows.Rows[Obj], last **string, maxRetries int) {
	a.Result = outcome.Classify(t.Err, t.Deleted || t.Deletion, int(a.Tries), maxRetries)
	kind := status.KindError
	switch a.Kind {
	case core.Done, core.DoneAgain:
		a.news = t.Changed || !a.Again || r.Asked(t.Row).Kind != status.KindDone
		return
	case core.BlockedOn, core.Deleting:
		kind = status.KindBlocked
	}
	text := a.Result.Text(t.Err, int(a.Tries))
	if old := r.Asked(t.Row); old.Kind == kind && old.Error != nil && *old.Error == text {
		a.Text, a.news = old.Error, t.Changed
		return
	}
	a.share(text, last)
	a.news = true
}

// share sets the text of an attempt. last points to the text that was set last, which is shared.
func (a *Attempt[Obj]) share(text string, last **string) {
	if *last == nil || **last != text {
		// A copy: only a text that is news is moved to the heap, and if it is a piece of a longer
		// text, that is not kept in memory.
		fresh := strings.Clone(text)
		*last = &fresh
	}
	a.Text = *last
}

// status returns the status for the outcome.
func (a *Attempt[Obj]) status(at time.Time) status.Status {
	switch a.Kind {
	case core.Done, core.DoneAgain:
		return status.DoneAt(at)
	case core.BlockedOn, core.Deleting:
		return status.BlockedText(at, a.Text)
	default:
		return status.ErrorText(at, a.Text)
	}
}

// Outcome returns the outcome for the core. object is the version that is in the table.
func (a *Attempt[Obj]) Outcome(object Obj) core.Outcome[Obj] {
	out := core.Outcome[Obj]{Kind: a.Kind, Lost: a.Lost, Obj: object, Revision: a.Revision, GivenUp: a.GivenUp}
	if a.Directive != nil {
		out.Delay, out.Backoff = a.Directive.Delay, a.Directive.Backoff
	}
	if a.Kind == core.BlockedOn || a.Kind == core.Deleting {
		out.Reason = a.Text
	}
	if a.HasFailed() {
		out.Failure = a.Text
		out.Final = a.Kind == core.Failed && a.Directive != nil && a.Directive.Kind == core.FailedForGood
	}
	return out
}
