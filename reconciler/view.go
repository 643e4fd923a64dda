// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/needs"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// view reads what a loop has published, and the rows; it changes nothing. Its methods are safe from any
// goroutine. It has no access to the goroutine of the loop: for what only that knows it asks a question,
// see [ask].
type view[Obj any] struct {
	life     *life
	identity inspect.ID
	rows     *rows.Rows[Obj]
	ledger   ledger.Ledger[Obj]
	stats    *stats[Obj]
	workers  *execute.Pool[Obj]
	tally    *execute.Tally
	settings *atomic.Pointer[Settings]
	scope    *atomic.Pointer[execute.Scope[Obj]]
	calls    *calls[Obj]
	needs    *needs.Needs[Obj]
	// lists: there is a Lister.
	lists bool
}

// newView returns the view of a loop.
func newView[Obj any](l *shared[Obj]) *view[Obj] {
	return &view[Obj]{
		life: &l.life, identity: l.setup.id, rows: l.rows, ledger: l.ledger, stats: &l.stats, workers: l.execution.workers,
		tally: &l.execution.config.Tally, settings: &l.settings.Pointer, scope: &l.execution.scope, calls: &l.calls, needs: l.needs,
		lists: l.setup.cfg.Lister != nil,
	}
}

// status returns the status of the row that txn has under the key of an object; false if it has none.
func (v *view[Obj]) status(txn statedb.ReadTxn, obj Obj) (Status, bool) {
	row, revision, found := v.rows.Get(txn, obj)
	if !found {
		return Status{}, false
	}
	return v.ledger.Status(txn, row, revision), true
}

// Status returns the status of the row that txn holds under the key of obj; false if it holds none.
// All that it says is true of that transaction: Done means that this version of the row was applied.
// UpdatedAt of a Done row is the time by which it had been applied, as exactly as the reconciler
// remembers; it is zero if the row was applied ahead of older changes. That of a Pending row is the
// time by which it had been written; it is zero if the reconciler has not read the table yet.
//
// If the rows carry the status, that is returned; but Pending, with the text, for a failure that an earlier
// run of a reconciler left in the row, or that came with the row from another process. Safe from any goroutine, also
// in an operation.
func (l *Loop[Obj]) Status(txn statedb.ReadTxn, obj Obj) (Status, bool) {
	return l.view.status(txn, obj)
}

// StatusWatch is [Loop.Status] with the channels of which at least one closes when the result has
// changed. They may also close when it has not. Add them to a [statedb.WatchSet]. There are none for an
// object for which the primary index makes no key.
func (l *Loop[Obj]) StatusWatch(txn statedb.ReadTxn, obj Obj) (s Status, found bool, watch []<-chan struct{}) {
	row, revision, changed, found := l.rows.GetWatch(txn, obj)
	if changed == nil {
		return Status{}, false, nil
	}
	watch = []<-chan struct{}{changed}
	if !found {
		return Status{}, false, watch
	}
	return l.ledger.Status(txn, row, revision), true, append(watch, l.ledger.Watch(txn, row, revision)...)
}

// Outcomes returns the table with a row for each object that is not Done, unless its key is longer than
// 65,535 bytes; nil if the rows carry the status. Its name is that of the reconciler, or of the table if the
// reconciler has none, with "-outcomes" appended. Only the reconciler writes it. An object that has just
// changed may have no row for the first 10 ms or more: [Loop.Status] tells a change that waits from one that
// was applied.
func (l *Loop[Obj]) Outcomes() statedb.Table[*inspect.Outcome] { return l.ledger.Outcomes() }

// ID returns the module, the name and the table of the reconciler.
func (l *Loop[Obj]) ID() inspect.ID { return l.setup.id }

// Explain returns why an object is, or is not, reconciled: its state and since when, its failures,
// when it is tried again or what it waits for, what is ahead of it, and its last operations. It also
// works for a deleted object, until its deletion is carried out.
//
// The key is one of the following; the first for which there is an object counts:
//
//   - a text in quotes
//   - "0x" and bytes in hexadecimal
//   - a text from which the table's primary index makes a key, as in the commands of statedb
//   - the bytes of the key as text
//
// The text that the reconciler shows as a key, in [inspect.Explanation], [inspect.ObjectLine] and
// [inspect.Operation], names exactly one object. A program that has an object passes "0x" and the key in
// hexadecimal.
//
// The cost does not grow with the table. The loop is asked between two rounds. If it does not answer
// within 100 ms, because it is in an operation, the Notes of the explanation name the operation and its
// start, and the rest is taken from the row and the journal: the state of an object that the operation is not on,
// and that is not Done, is then unknown. Safe from any goroutine.
func (l *Loop[Obj]) Explain(ctx context.Context, key string) inspect.Explanation {
	return l.view.explain(ctx, key)
}

// Objects lists objects, a page at a time, in the order in which they were last written, the oldest
// first. The status "Deleted" lists the deletions that are not carried out, in the order in which
// they came.
//
// The error is not nil if the query is invalid: an unknown Status, or an After that is not the Next
// of the page before. For deletions, which only the loop knows, it also wraps
// [inspect.ErrNotStarted], [inspect.ErrStopped] or an *[inspect.BusyError] if the loop does not
// answer within 100 ms. In a list of rows that is no error: State is then in flight for the object of the
// operation that the loop is in, done for a row that is Done, and else unknown, and Attempts and Next are zero.
//
// The cost of a page is that of the rows that it reads, at most 20,000; for deletions, that of the objects
// that are not applied: about 20,000, and more only if they changed at the same revision. A page may be
// empty and have a Next. It ends early when its keys and reasons have 768 KiB. Safe from any goroutine.
func (l *Loop[Obj]) Objects(ctx context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	return l.view.objects(ctx, q)
}

// Keys returns the texts of up to limit keys that begin with a prefix, in the order of the table. It
// reads the first 20,000 rows only. Safe from any goroutine.
func (l *Loop[Obj]) Keys(prefix string, limit int) []string {
	return l.view.rows.Names(prefix, limit, maxScanned)
}

// Operations returns the operations in the journal, the oldest first: the latest 1,024 of the rounds that
// [Loop.Rounds] returns. The journal keeps the objects in memory, in the versions that were applied. The key is as for
// [Loop.Explain]. Safe from any goroutine; it does not wait for a running operation.
func (l *Loop[Obj]) Operations(q inspect.OperationQuery) []inspect.Operation {
	return l.view.operations(q)
}

// Rounds returns the latest 128 rounds, the oldest first. Safe from any
// goroutine; it does not wait for a running operation. The cost is proportional to the result.
func (l *Loop[Obj]) Rounds() []inspect.Round { return l.stats.journal.Rounds() }

// Snapshot returns the state of the reconciler as a whole. The state of the loop is that of one
// moment between two rounds. If the loop does not answer within 100 ms, because it is in an
// operation, it is that of the end of the last round, and Busy names the operation. The cost does not
// grow with the number of objects. Safe from any goroutine.
func (l *Loop[Obj]) Snapshot(ctx context.Context) inspect.Snapshot { return l.view.snapshot(ctx) }

// Figures returns the counters and the current state of the loop. It implements [metrics.Source].
func (l *Loop[Obj]) Figures() metrics.Figures { return l.view.figures() }

// operations is [Loop.Operations].
func (v *view[Obj]) operations(q inspect.OperationQuery) []inspect.Operation {
	if q.Key == "" {
		return v.stats.journal.Operations(nil, q.Since, q.Limit)
	}
	s := v.find(q.Key, func(key index.Key) bool { return len(v.operationsOf(key, q)) > 0 })
	return v.operationsOf(s.key, q)
}

// operationsOf returns the operations that a query selects, of the object with a key.
func (v *view[Obj]) operationsOf(key index.Key, q inspect.OperationQuery) []inspect.Operation {
	return v.stats.journal.Operations(func(obj Obj) bool { return bytes.Equal(v.rows.Key(obj), key) }, q.Since, q.Limit)
}
