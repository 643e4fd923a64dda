// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// InRows writes outcomes into the rows of a table. It is not safe for concurrent use.
type InRows[Obj any] struct {
	rows *rows.Rows[Obj]
	log  *slog.Logger
	now  func() time.Duration
	// contended: in the last transaction, other writers had changed more than an eighth of the rows.
	// Then a row is read before the swap.
	contended bool
}

// NewInRows returns the ledger for the rows of a table. now is the loop's clock.
func NewInRows[Obj any](r *rows.Rows[Obj], log *slog.Logger, now func() time.Duration) *InRows[Obj] {
	return &InRows[Obj]{rows: r, log: log, now: now}
}

// Commit is what one transaction wrote.
type Commit struct {
	// Written is the number of statuses that were written. Conflicts is how many of these were merged
	// into what another reconciler had written. Lost is the number of outcomes that were not written
	// because the object had changed or was deleted.
	Written, Conflicts, Lost int
	// Revision is the revision of the table after the commit. Took is the time for the transaction,
	// including the wait for the lock of the table. Both are zero if there was nothing to write.
	Revision statedb.Revision
	Took     time.Duration
}

// Write implements [Ledger]: it writes the outcomes that are news in one transaction.
func (l *InRows[Obj]) Write(ops []core.Operation[Obj], maxRetries int) Commit {
	news := l.prepare(ops, maxRetries)
	if news == 0 {
		return Commit{}
	}
	var c Commit
	began := l.now()
	wtxn := l.rows.DB.WriteTxn(l.rows.Table)
	// A panic in a user's function must not leave the table locked.
	defer wtxn.Abort()
	for i := range ops {
		if ops[i].Effect.News {
			l.writeOne(wtxn, &c, &ops[i])
		}
	}
	c.Revision = l.rows.Table.Revision(wtxn)
	wtxn.Commit()
	c.Took = l.now() - began
	// Reading first is cheaper than a failed swap, but only while there are other writers.
	l.contended = c.Conflicts+c.Lost > news/8
	return c
}

// prepare sets the outcomes and makes the new rows, before the table is locked. It returns the
// number of statuses to write.
func (l *InRows[Obj]) prepare(ops []core.Operation[Obj], maxRetries int) (news int) {
	at := time.Now()
	var last *string
	for i := range ops {
		op := &ops[i]
		classify(op, maxRetries)
		compare(op, l.rows, &last)
		switch {
		case op.Deleted:
			op.Effect.News = false
		case op.Discounted() && op.Outcome.Succeeded():
			// It is run again: until then the row must not show that it is applied.
			op.Effect.News, op.Outcome.Object = false, op.Row
		case op.Effect.News:
			news++
			if op.Run.Err == execute.ErrGoexit {
				// The goroutine may have ended before the row was cloned.
				op.Outcome.Object = l.rows.Writable.Clone(op.Outcome.Object)
			}
			op.Outcome.Object = l.rows.Writable.SetStatus(op.Outcome.Object, statusOf(&op.Outcome, at))
		default:
			op.Outcome.Object = op.Row
		}
	}
	return news
}

func (l *InRows[Obj]) writeOne(wtxn statedb.WriteTxn, c *Commit, op *core.Operation[Obj]) {
	if l.contended || op.Run.Merged {
		current, revision, found := l.rows.Get(wtxn, op.Row)
		if !found || revision != op.RowRevision || op.Run.Merged {
			l.writeOnto(wtxn, c, op, current, found)
			return
		}
	}
	current, found, err := l.rows.Writable.Table.CompareAndSwap(wtxn, op.RowRevision, op.Outcome.Object)
	if err == nil && found {
		c.Written++
		op.Outcome.NewRevision = l.rows.Table.Revision(wtxn)
	} else {
		l.writeOnto(wtxn, c, op, current, found && errors.Is(err, statedb.ErrRevisionNotEqual))
	}
}

// writeOnto merges the outcome into current, the row that another writer has changed. If that still
// asks for the same operation, only another reconciler's status can have been written, and this
// status is added. Otherwise the outcome is lost.
func (l *InRows[Obj]) writeOnto(wtxn statedb.WriteTxn, c *Commit, op *core.Operation[Obj], current Obj, found bool) {
	if key := l.rows.Key(op.Row); !l.rows.HasKey(op.Outcome.Object, key) {
		// The operation has changed or removed the key of its clone: the clone belongs to no row.
		l.log.Error("an operation changed the primary key of its object; what it set on the object is dropped",
			"table", l.rows.Table.Name(), "key", key, "operation", execute.NameOf(op.Deleted))
		current, _, found = l.rows.Get(wtxn, op.Row)
		op.Outcome.Object = l.rows.Writable.Clone(op.Row)
	}
	if _, err := l.rows.KeyOf(op.Row); !found && err != nil {
		// The row is in the table, and cannot be written.
		text := err.Error()
		op.Outcome.Object, op.Run.Err = op.Row, outcome.TerminalError(errors.New(text))
		outcome.Classify(&op.Outcome, op.Run.Err, false, 0, 0)
		op.Outcome.Text = &text
		return
	}
	if found = found && l.belongs(op, current); found {
		onto := l.rows.Writable.Clone(current)
		if l.rows.Writable.Merge != nil {
			onto = l.rows.Writable.Merge(onto, op.Outcome.Object)
		}
		op.Outcome.Object = l.rows.Writable.SetStatus(onto, statusOf(&op.Outcome, time.Now()))
		_, _, err := l.rows.Writable.Table.Insert(wtxn, op.Outcome.Object)
		found = err == nil
	}
	if !found {
		op.Outcome.Lost = true
		c.Lost++
		return
	}
	c.Written++
	c.Conflicts++
	op.Effect.Conflict = true
	op.Outcome.NewRevision = l.rows.Table.Revision(wtxn)
}

// belongs reports whether an outcome belongs to the row that another writer has changed.
func (l *InRows[Obj]) belongs(op *core.Operation[Obj], current Obj) bool {
	if op.Outcome.Succeeded() {
		return l.rows.SamePending(op.Row, current)
	}
	// The retry applies the row as it is then.
	return l.rows.MaySamePending(op.Row, current)
}

// Begin implements [Ledger].
func (l *InRows[Obj]) Begin(time.Duration, statedb.Revision) {}

// Publish implements [Ledger]: everything was written by Write.
func (l *InRows[Obj]) Publish(statedb.Revision, []observe.Range, bool) Commit { return Commit{} }

// Next implements [Ledger].
func (l *InRows[Obj]) Next() (time.Duration, bool) { return 0, false }

// Status implements [Ledger]: the status is in the row.
func (l *InRows[Obj]) Status(_ statedb.ReadTxn, row Obj, _ statedb.Revision) status.Status {
	return l.rows.Asked(row)
}

// Watch implements [Ledger]: the status changes with the row.
func (l *InRows[Obj]) Watch(statedb.ReadTxn, Obj, statedb.Revision) []<-chan struct{} { return nil }

// Covers implements [Ledger]: the rows show what is Done.
func (l *InRows[Obj]) Covers(statedb.Revision) bool { return false }

// Covered implements [Ledger].
func (l *InRows[Obj]) Covered() iter.Seq2[statedb.Revision, statedb.Revision] {
	return func(func(after, upTo statedb.Revision) bool) {}
}

// Written implements [Ledger]: a Pending row was written when its status was made.
func (l *InRows[Obj]) Written(row Obj, _ statedb.Revision) time.Time {
	return l.rows.Asked(row).UpdatedAt
}

// Applied implements [Ledger].
func (l *InRows[Obj]) Applied(statedb.Revision) string { return "" }

// Outcomes implements [Ledger].
func (l *InRows[Obj]) Outcomes() statedb.Table[*inspect.Outcome] { return nil }
