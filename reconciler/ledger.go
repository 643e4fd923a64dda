// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// newRows returns the rows of the table.
func (cfg *Config[Obj]) newRows() *rows.Rows[Obj] {
	if !cfg.statusInRows() {
		return rows.NewBeside(cfg.DB, cfg.Table)
	}
	return rows.New(cfg.DB, cfg.Table.(statedb.RWTable[Obj]), rows.Functions[Obj]{
		Clone: cfg.Clone, GetStatus: cfg.GetStatus, SetStatus: cfg.SetStatus, Merge: cfg.Merge,
	})
}

// openTables opens the tables of the ledger beside the table; nil if the rows carry the status.
func (l *Loop[Obj]) openTables() (*ledger.Tables, error) {
	if !l.beside {
		return nil, nil
	}
	// The tables refer to the function also after the loop has ended: it must not refer to the loop.
	of := l.rows
	return ledger.OpenTables(l.cfg.DB, cmp.Or(l.opts.name, l.cfg.Table.Name()), func(text string) (index.Key, error) {
		return of.Keys(text)[0], nil
	})
}

// useLedger chooses the ledger. It is called once the core exists.
func (r *runner[Obj]) useLedger(tables *ledger.Tables) {
	if tables == nil {
		r.ledger, r.marks, r.repeat = ledger.NewInRows(r.rows, r.log, r.now), &r.progress, byMark[Obj]{r.rows}
		return
	}
	r.repeat = byKey[Obj]{r.Loop}
	r.ledger, r.marks = ledger.NewBeside(r.rows, tables, r.core, r.log, r.now, r.timeOf), observe.NoWaits{}
}

// writeOutcomes writes the outcomes that belong beside the table, at the end of a pass.
func (r *runner[Obj]) writeOutcomes(round *inspect.Round) {
	if r.torn {
		return
	}
	upTo, ahead := r.observer.Read()
	c := r.ledger.Publish(ledger.Pass{Observed: upTo, Ahead: ahead})
	round.Written += c.Written
	round.CommitTook += c.Took
}

// ErrNotWritable is returned by [Checkpoint] if the rows carry no status: then the reconciler never
// writes its table. It is a [TerminalError].
var ErrNotWritable = execute.ErrNotWritable

// Status returns the status of the row that txn holds under the key of obj; false if it holds none.
// All that it says is true of that transaction: Done means that this version of the row was applied.
// UpdatedAt of a Done row is the time by which it had been applied, as exactly as the reconciler
// remembers; it is zero if the row was applied ahead of older changes. That of a Pending row is the
// time by which it had been written; it is zero if the reconciler has not read the table yet.
//
// If the rows carry the status, that is returned; but Pending, with the text, for a failure that an earlier
// run of a reconciler left in the row. Safe from any goroutine, also in an operation.
func (l *Loop[Obj]) Status(txn statedb.ReadTxn, obj Obj) (Status, bool) {
	return l.view.status(txn, obj)
}

// StatusWatch is [Loop.Status] with the channels of which at least one closes when the result has
// changed. They may also close when it has not. Add them to a [statedb.WatchSet]. There are none for an
// object of which the primary index makes no key.
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
