// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// classify sets the outcome of an operation that ran, without its text.
func classify[Obj any](op *core.Operation[Obj], maxRetries int) {
	op.Outcome.NewRevision = op.RowRevision
	outcome.Classify(&op.Outcome, op.Run.Err, op.Deleted || op.Run.Deletion, int(op.Tries), maxRetries)
}

// compare sets the text of an outcome, and whether the outcome is news. last is as for share.
func compare[Obj any](op *core.Operation[Obj], r *rows.Rows[Obj], last **string) {
	kind := status.KindError
	switch op.Outcome.Kind {
	case core.Done, core.DoneAgain:
		// That of a refresh is written even if it is no news: so the row is behind those that were refreshed before.
		op.Effect.News = op.Run.Changed || !op.Turn.Waited || op.Lane() == core.Refresh || r.Asked(op.Row).Kind != status.KindDone
		return
	case core.BlockedOn, core.Deleting:
		kind = status.KindBlocked
	}
	text := outcome.Text(&op.Outcome, op.Run.Err, int(op.Tries))
	if old := r.Asked(op.Row); old.Kind == kind && old.Error != nil && *old.Error == text {
		op.Outcome.Text, op.Effect.News = old.Error, op.Run.Changed
		return
	}
	share(op, text, last)
	op.Effect.News = true
}

// share sets the text of an outcome. last points to the last text that was set, which is shared: operations
// that fail together mostly fail with the same text.
func share[Obj any](op *core.Operation[Obj], text string, last **string) {
	if *last == nil || **last != text {
		// A copy: only a text that is news is moved to the heap, and if it is a piece of a longer
		// text, that is not kept in memory.
		fresh := strings.Clone(text)
		*last = &fresh
	}
	op.Outcome.Text = *last
}

// statusOf returns the status for an outcome.
func statusOf[Obj any](out *core.Outcome[Obj], at time.Time) status.Status {
	switch out.Kind {
	case core.Done, core.DoneAgain:
		return status.DoneAt(at)
	case core.BlockedOn, core.Deleting:
		return status.BlockedText(at, out.Text)
	default:
		return status.ErrorText(at, out.Text)
	}
}
