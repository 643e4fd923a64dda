// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"iter"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// MaxHold is how long a change may hold the mark without having been attempted. The pass that begins then
// writes a row for it into the table of outcomes, and the mark passes it. Most operations end sooner, and
// cost no row. While there are intervals, no change holds the mark: each has a row at once.
const MaxHold = 10 * time.Millisecond

// Beside writes outcomes into tables beside the table of objects: a row for each object that is not
// Done, and the mark, which says how far the table was attempted. An object is Done if the mark covers
// its revision and it has no row. So an object that is applied at once costs no write.
type Beside[Obj any] struct {
	rows   *rows.Rows[Obj]
	core   Keys[Obj]
	tables *Tables
	query  func(index.Key) statedb.Query[*inspect.Outcome]
	log    *slog.Logger
	now    func() time.Duration
	timeOf func(time.Duration) time.Time
	times  Times

	// The fields below belong to the goroutine of the loop. mark is what was written last. began is the start
	// of the pass, table the revision that it reads. keep appends to records.
	mark    Mark
	began   time.Duration
	table   statedb.Revision
	records []core.Record[Obj]
	keep    func(core.Record[Obj])
}

// NewBeside returns the ledger beside a table. now is the loop's clock, timeOf converts its times.
func NewBeside[Obj any](r *rows.Rows[Obj], t *Tables, k Keys[Obj], log *slog.Logger, now func() time.Duration, timeOf func(time.Duration) time.Time) *Beside[Obj] {
	l := &Beside[Obj]{rows: r, core: k, tables: t, query: t.Outcomes.PrimaryIndexer().(outcomeIndex).QueryFromKey, log: log, now: now, timeOf: timeOf}
	l.keep = func(r core.Record[Obj]) { l.records = append(l.records, r) }
	return l
}

// Begin implements [Ledger].
func (l *Beside[Obj]) Begin(began time.Duration, table statedb.Revision) {
	l.began = began
	if table != l.table {
		// It may have been written since the pass began.
		l.table, began = table, l.now()
	}
	l.times.Note(began, table, l.mark.Revision)
}

// Write implements [Ledger]: it writes nothing, since Publish does.
func (l *Beside[Obj]) Write(ops []core.Operation[Obj], maxRetries int) Commit {
	var last *string
	for i := range ops {
		op := &ops[i]
		op.Outcome.Object = op.Row
		classify(op, maxRetries)
		if !op.Outcome.Succeeded() {
			share(op, outcome.Text(&op.Outcome, op.Run.Err, int(op.Tries)), &last)
		}
	}
	return Commit{}
}

// Publish implements [Ledger].
func (l *Beside[Obj]) Publish(observed statedb.Revision, ahead []observe.Range, all bool) Commit {
	until := l.began - MaxHold
	if all || len(ahead)+len(l.mark.Intervals) > 0 {
		// The mark must pass all that an interval had, and an interval must not lose revisions.
		until = math.MaxInt64
	}
	l.core.TakeRecords(until, l.keep)
	mark, intervals := l.reached(observed, ahead)
	moved := mark != l.mark.Revision || !slices.Equal(intervals, l.mark.Intervals)
	if len(l.records) == 0 && !moved {
		return Commit{}
	}
	began := l.now()
	c := Commit{Written: l.write(mark, intervals, moved)}
	ended := l.now()
	c.Took = ended - began
	l.times.Note(ended, 0, l.mark.Revision)
	return c
}

// reached returns how far the table was attempted or recorded. If there are intervals, no change holds the
// mark.
func (l *Beside[Obj]) reached(observed statedb.Revision, ahead []observe.Range) (mark statedb.Revision, intervals []observe.Range) {
	mark = observed
	if since, _, holds := l.core.HoldsSince(); holds {
		mark = min(mark, since-1)
	}
	// A change that was taken back after an earlier pass was never passed, so the mark cannot go back.
	mark = max(mark, l.mark.Revision)
	for _, r := range ahead {
		intervals = append(intervals, observe.Range{After: max(r.After, mark), UpTo: r.UpTo})
	}
	return mark, intervals
}

// write writes the records, and the mark if it has moved, in one transaction. It returns the number of
// rows of outcomes that it wrote.
func (l *Beside[Obj]) write(mark statedb.Revision, intervals []observe.Range, moved bool) (written int) {
	tables := []statedb.TableMeta{l.tables.Outcomes, l.tables.Mark}
	switch {
	case len(l.records) == 0:
		tables = tables[1:]
	case !moved:
		tables = tables[:1]
	}
	at := time.Now()
	wtxn := l.rows.DB.WriteTxn(tables...)
	// A panic in a user's function must not leave the tables locked.
	defer wtxn.Abort()
	defer func() { clear(l.records); l.records = l.records[:0] }()
	for i := range l.records {
		if l.writeRecord(wtxn, &l.records[i], at) {
			written++
		}
	}
	if moved {
		l.mark = Mark{Revision: mark, Intervals: intervals}
		if err := l.tables.SetMark(wtxn, l.mark.Revision, l.mark.Intervals); err != nil {
			l.log.Error("the outcomes cannot be written", "error", err)
			return 0
		}
	}
	wtxn.Commit()
	return written
}

// writeRecord writes the row of a record, and reports whether it differed.
func (l *Beside[Obj]) writeRecord(wtxn statedb.WriteTxn, r *core.Record[Obj], at time.Time) bool {
	if len(r.Key) > rows.MaxKey {
		// It would never be found again. Status does without it.
		return false
	}
	old, _, found := l.tables.Outcomes.Get(wtxn, l.query(index.Key(r.Key)))
	if r.Kind == core.NotRecorded {
		if found {
			_, _, _ = l.tables.Outcomes.Delete(wtxn, old)
			l.times.NoteLate(l.now(), r.Revision)
		}
		return found
	}
	row := &inspect.Outcome{Kind: kinds[r.Kind], Revision: r.Revision, Since: at, Deleted: r.Deleted}
	if r.Text != nil {
		row.Text = *r.Text
	}
	if found {
		row.ID, row.Key = old.ID, old.Key
		if old.Kind == row.Kind {
			row.Since = old.Since
		}
		if old.Kind == row.Kind && old.Text == row.Text && old.Revision == row.Revision && old.Deleted == row.Deleted {
			return false
		}
	} else {
		row.ID, row.Key = []byte(r.Key), l.rows.Name(r.Obj)
	}
	_, _, _ = l.tables.Outcomes.Insert(wtxn, row)
	return true
}

var kinds = [...]status.Kind{
	core.RecordedPending: status.KindPending, core.RecordedFailed: status.KindError, core.RecordedBlocked: status.KindBlocked,
}

// Next implements [Ledger].
func (l *Beside[Obj]) Next() (time.Duration, bool) {
	_, observed, holds := l.core.HoldsSince()
	return observed + MaxHold, holds
}

// Covers implements [Ledger].
func (l *Beside[Obj]) Covers(revision statedb.Revision) bool { return l.mark.Covers(revision) }

// Covered implements [Ledger].
func (l *Beside[Obj]) Covered() iter.Seq2[statedb.Revision, statedb.Revision] { return l.mark.ranges }

// Status implements [Ledger].
func (l *Beside[Obj]) Status(txn statedb.ReadTxn, row Obj, revision statedb.Revision) status.Status {
	if err := l.rows.Unwritable(row); err != nil {
		text := err.Error()
		return status.Status{Kind: status.KindError, UpdatedAt: l.Written(row, revision), Error: &text}
	}
	var o *inspect.Outcome
	found := l.tables.Outcomes.NumObjects(txn) > 0
	if found {
		o, _, found = l.tables.Outcomes.Get(txn, l.query(l.rows.Key(row)))
	}
	covered := l.tables.Current(txn).Covers(revision)
	switch {
	case covered && !found:
		s := status.Status{Kind: status.KindDone}
		if _, upTo, ok := l.times.Applied(revision); ok {
			s.UpdatedAt = l.timeOf(upTo)
		}
		return s
	case found && o.Kind != status.KindPending && !o.Deleted && (covered || o.Revision == revision):
		// A copy: the row must not be changed through it.
		text := o.Text
		return status.Status{Kind: o.Kind, UpdatedAt: o.Since, Error: &text}
	}
	return status.Status{Kind: status.KindPending, UpdatedAt: l.Written(row, revision)}
}

// Watch implements [Ledger]. The channel of the mark is among them only if the status depends on it.
func (l *Beside[Obj]) Watch(txn statedb.ReadTxn, row Obj, revision statedb.Revision) []<-chan struct{} {
	_, _, changed, _ := l.tables.Outcomes.GetWatch(txn, l.query(l.rows.Key(row)))
	if l.tables.Current(txn).Covers(revision) {
		return []<-chan struct{}{changed}
	}
	_, moved := l.tables.Mark.AllWatch(txn)
	return []<-chan struct{}{changed, moved}
}

// Written implements [Ledger].
func (l *Beside[Obj]) Written(_ Obj, revision statedb.Revision) time.Time {
	if _, upTo, ok := l.times.Written(revision); ok {
		return l.timeOf(upTo)
	}
	if last, ok := l.times.Last(); ok {
		// The loop has not seen it yet: it was written after the last pass began.
		return l.timeOf(last)
	}
	return time.Time{}
}

// Applied implements [Ledger].
func (l *Beside[Obj]) Applied(revision statedb.Revision) string {
	after, upTo, ok := l.times.Applied(revision)
	switch {
	case !ok:
		// The catch-up cursor is ahead of the mark.
		return "applied ahead of older changes"
	case after < 0:
		return "applied before " + l.timeOf(upTo).Format(time.RFC3339Nano)
	case after == upTo:
		return "applied at " + l.timeOf(upTo).Format(time.RFC3339Nano)
	}
	return "applied between " + l.timeOf(after).Format(time.RFC3339Nano) + " and " + l.timeOf(upTo).Format(time.RFC3339Nano)
}

// Outcomes implements [Ledger].
func (l *Beside[Obj]) Outcomes() statedb.Table[*inspect.Outcome] { return l.tables.Outcomes }
