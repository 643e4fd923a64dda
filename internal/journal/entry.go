// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// entry is one operation in the journal. Its fields are those of [inspect.Operation].
type entry[Obj any] struct {
	Object   Obj
	Revision uint64
	Took     time.Duration
	// Text is the text of the error or the reason of a block. Text and Note are nil if there is none.
	Text, Note *string
	Attempt    int32
	Result     core.Kind
	Cause      core.Cause
	// Deleted reports whether the operation was a delete.
	Deleted  bool
	Lost     bool
	Conflict bool
}

// entryOf returns the entry for an operation that has ended.
func entryOf[Obj any](op *core.Operation[Obj]) entry[Obj] {
	return entry[Obj]{
		Object: op.Outcome.Object, Revision: op.RowRevision, Took: op.Run.Took, Text: op.Outcome.Text, Note: op.Run.Note, Attempt: op.Failures + 1,
		Result: op.Outcome.Kind, Cause: op.Turn.Cause, Deleted: op.Deleted, Lost: op.Outcome.Lost, Conflict: op.Effect.Conflict,
	}
}

// operation returns the entry as an [inspect.Operation], without the key and the round.
func (e *entry[Obj]) operation() inspect.Operation {
	o := inspect.Operation{
		Op: metrics.OpUpdate, Cause: inspect.Cause(e.Cause.String()), Revision: e.Revision, Attempt: int(e.Attempt),
		Result: inspect.Result(e.Result.String()), Lost: e.Lost, Conflict: e.Conflict, Took: e.Took,
	}
	if e.Deleted {
		o.Op = metrics.OpDelete
	}
	if e.Text != nil {
		o.Error = *e.Text
	}
	if e.Note != nil {
		o.Note = *e.Note
	}
	return o
}
