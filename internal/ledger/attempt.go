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
	"github.com/statekeel/statekeel/status"
)

// Attempt is what became of a task: where it came from, what its outcome is, and whether that was
// written. It is kept small: there is one for each object that is reconciled.
type Attempt[Obj any] struct {
	outcome.Result
	// Text is the error's text or the reason of a block; nil for the kinds without one.
	Text *string
	// Revision is that of the object in the table after the commit, for the outcomes
	// that make the key wait.
	Revision statedb.Revision
	// Wanted is when the change was written, by the loop's clock; 0 if not known yet.
	Wanted time.Duration
	// Class is that of the failure, if it is Classed.
	Class string
	// Item is the index of the task's item, Tries how many attempts failed since the object
	// changed.
	Item, Tries int32
	// Cause is why it was run.
	Cause   core.Cause
	Classed bool
	// Change: it was of a change, not to apply again what had been.
	Change bool
	// Again: the key had waited, and its status need not be Pending or Refreshing.
	Again bool
	// Conflict: the status was written onto what another reconciler had written.
	Conflict bool
	// Lost: the object changed while the operation ran.
	Lost bool
	// news: the status says something new, and has to be written.
	news bool
}

// HasFailed reports whether the operation failed.
func (a *Attempt[Obj]) HasFailed() bool {
	return a.Kind == core.Failed || a.Kind == core.FailedForGood
}

// classify says what a task's error means, and whether that is news for the status, which was. last
// is the text that was news last: what fails together mostly fails with the same, which then need
// be kept once only.
func (a *Attempt[Obj]) classify(t *execute.Task[Obj], was func(Obj) status.Status, last **string, maxRetries int) {
	a.Result = outcome.Classify(t.Err, t.Deleted || t.Deletion, int(a.Tries), maxRetries)
	kind := status.KindError
	switch a.Kind {
	case core.Done, core.DoneAgain:
		a.news = t.Changed || !a.Again || was(t.Row).Kind != status.KindDone
		return
	case core.BlockedOn, core.Deleting:
		kind = status.KindBlocked
	}
	text := a.Result.Text(t.Err, int(a.Tries))
	if old := was(t.Row); old.Kind == kind && old.Error != nil && *old.Error == text {
		a.Text, a.news = old.Error, t.Changed
		return
	}
	if *last == nil || **last != text {
		// A copy, so that only a text that is news goes to the heap, and no long text of which it
		// is a piece is held.
		fresh := strings.Clone(text)
		*last = &fresh
	}
	a.Text, a.news = *last, true
}

// status returns the status that says what came of the attempt.
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

// Outcome returns what the attempt means for the core; object is the version that
// stands in the table.
func (a *Attempt[Obj]) Outcome(object Obj) core.Outcome[Obj] {
	out := core.Outcome[Obj]{Kind: a.Kind, Lost: a.Lost, Obj: object, Revision: a.Revision, GivenUp: a.GivenUp}
	if a.Directive != nil {
		out.Delay, out.Backoff = a.Directive.Delay, a.Directive.Backoff
	}
	if a.HasFailed() {
		out.Failure = a.Text
		out.Final = a.Kind == core.Failed && a.Directive != nil && a.Directive.Kind == core.FailedForGood
	}
	return out
}
