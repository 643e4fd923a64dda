// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"time"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Cause is an [inspect.Cause] in one byte.
type Cause uint8

// The causes, in the order of those of package inspect.
const (
	Change Cause = iota
	Refresh
	Retry
	Requeue
	Released
	Recheck
	Probe
	BreakerClosed
	Resumed
	Call
	Sweep
)

var causes = [...]inspect.Cause{
	inspect.CauseChange, inspect.CauseRefresh, inspect.CauseRetry, inspect.CauseRequeue, inspect.CauseReleased,
	inspect.CauseRecheck, inspect.CauseProbe, inspect.CauseBreaker, inspect.CauseResumed, inspect.CauseCall,
	inspect.CauseSweep,
}

// Text returns the cause as it is shown.
func (c Cause) Text() inspect.Cause { return causes[c] }

// Result is an [inspect.Result] in one byte.
type Result uint8

// The results, in the order of those of package inspect.
const (
	Done Result = iota
	Failed
	Terminal
	Blocked
	Requeued
)

var results = [...]inspect.Result{
	inspect.ResultDone, inspect.ResultFailed, inspect.ResultTerminal, inspect.ResultBlocked, inspect.ResultRequeue,
}

// Text returns the result as it is shown.
func (r Result) Text() inspect.Result { return results[r] }

// Entry is one operation as the journal keeps it. Its fields are those of [inspect.Operation].
type Entry[Obj any] struct {
	Object   Obj
	Revision uint64
	Took     time.Duration
	// Text is that of the error, or the reason of a block; it and Note are nil if there is none.
	Text, Note *string
	Attempt    int32
	Result     Result
	Cause      Cause
	// Deleted: the operation was a delete.
	Deleted  bool
	Lost     bool
	Conflict bool
}

// operation returns the entry as it is shown, without the key.
func (e *Entry[Obj]) operation() inspect.Operation {
	o := inspect.Operation{
		Op: metrics.OpUpdate, Cause: e.Cause.Text(), Revision: e.Revision, Attempt: int(e.Attempt),
		Result: e.Result.Text(), Lost: e.Lost, Conflict: e.Conflict, Took: e.Took,
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

// textSize returns the bytes of the texts of an operation.
func (e *Entry[Obj]) textSize() (bytes int) {
	if e.Text != nil {
		bytes += len(*e.Text)
	}
	if e.Note != nil {
		bytes += len(*e.Note)
	}
	return bytes
}
