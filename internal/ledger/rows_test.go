// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

type row struct {
	key, value string
	own, other status.Status
}

func (*row) TableHeader() []string { return []string{"Key"} }
func (r *row) TableRow() []string  { return []string{r.key} }

type world struct {
	t      *testing.T
	rows   *rows.Rows[*row]
	ledger *ledger.InRows[*row]
}

func newWorld(t *testing.T, merge func(current, reconciled *row) *row) *world {
	db := statedb.New()
	w := &world{t: t, rows: rows.New(db, newTable(t, db, "rows"), rows.Functions[*row]{
		Clone:     func(r *row) *row { c := *r; return &c },
		GetStatus: func(r *row) status.Status { return r.own },
		SetStatus: func(r *row, s status.Status) *row { r.own = s; return r },
		Merge:     merge,
	})}
	w.ledger = ledger.NewInRows(w.rows, slog.New(slog.DiscardHandler), func() time.Duration { return 0 })
	return w
}

// put inserts a row, and returns an operation on it that returned err.
func (w *world) put(r *row, err error) core.Operation[*row] {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	_, _, insertErr := w.rows.Writable.Table.Insert(wtxn, r)
	require.NoError(w.t, insertErr)
	revision := w.rows.Table.Revision(wtxn)
	wtxn.Commit()
	return core.Operation[*row]{
		Row: r, RowRevision: revision, Run: core.Run{Err: err}, Outcome: core.Outcome[*row]{Object: w.rows.Writable.Clone(r)},
	}
}

// change changes a row as another writer does, even while an operation on it runs.
func (w *world) change(key string, change func(r *row)) {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	defer wtxn.Commit()
	now, _, _ := w.rows.Get(wtxn, &row{key: key})
	now = w.rows.Writable.Clone(now)
	change(now)
	_, _, _ = w.rows.Writable.Table.Insert(wtxn, now)
}

func (w *world) write(ops ...core.Operation[*row]) ([]core.Operation[*row], ledger.Commit) {
	c := w.ledger.Write(ops, 0)
	return ops, c
}

func (w *world) get(key string) *row {
	r, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: key})
	require.True(w.t, found)
	return r
}

func TestOutcomesOfABatchAreWrittenInOneTransaction(t *testing.T) {
	w := newWorld(t, nil)
	ops := []core.Operation[*row]{
		w.put(&row{key: "a", own: status.Pending()}, nil),
		w.put(&row{key: "b", own: status.Pending()}, errors.New("no")),
		w.put(&row{key: "c", own: status.Pending()}, outcome.Blocked("a device")),
	}
	ops[0].Outcome.Object.value = "set by the operation"
	before := w.rows.DB.ReadTxn()
	_, c := w.write(ops...)
	require.Equal(t, 3, c.Written)
	require.Equal(t, w.rows.Revision(), c.Revision)
	require.Equal(t, status.KindDone, w.get("a").own.Kind)
	require.Equal(t, "set by the operation", w.get("a").value)
	require.Equal(t, "no", *w.get("b").own.Error)
	require.Equal(t, status.KindBlocked, w.get("c").own.Kind)
	old, _, _ := w.rows.Get(before, &row{key: "a"})
	require.Equal(t, status.KindPending, old.own.Kind, "rows are not changed in place")
}

func TestUnchangedOutcomeIsNotWritten(t *testing.T) {
	w := newWorld(t, nil)
	again := func(s status.Status, err error) int {
		op := w.put(&row{key: "a", own: s}, err)
		op.Turn.Again, op.Tries = true, 9
		_, c := w.write(op)
		return c.Written
	}
	no := "no"
	require.Equal(t, 0, again(status.Done(), nil))
	require.Equal(t, 0, again(status.ErrorText(time.Now(), &no), errors.New("no")))
	require.Equal(t, 1, again(status.ErrorText(time.Now(), &no), errors.New("yes")), "another text")
	require.Equal(t, 1, again(status.ErrorText(time.Now(), &no), nil))
	deleted := w.put(&row{key: "d", own: status.Pending()}, nil)
	deleted.Deleted = true
	_, c := w.write(deleted)
	require.Equal(t, 0, c.Written, "no row has the status of a deletion")
}

func TestOutcomeOfAChangedObjectIsLost(t *testing.T) {
	w := newWorld(t, nil)
	changed, deleted := w.put(&row{key: "a", own: status.Pending()}, nil), w.put(&row{key: "b", own: status.Pending()}, nil)
	w.change("a", func(r *row) { r.own = status.Pending() })
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	_, _, _ = w.rows.Writable.Table.Delete(wtxn, &row{key: "b"})
	wtxn.Commit()
	ops, c := w.write(changed, deleted)
	require.Equal(t, ledger.Commit{Lost: 2, Revision: c.Revision}, c)
	require.True(t, ops[0].Outcome.Lost && ops[1].Outcome.Lost)
	require.Equal(t, status.KindPending, w.get("a").own.Kind)
	_, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: "b"})
	require.False(t, found, "a status write must not bring a deleted object back")
}

func TestStatusOfAnotherReconcilerIsKept(t *testing.T) {
	for _, merge := range []func(current, reconciled *row) *row{
		nil, func(current, reconciled *row) *row { current.value = reconciled.value; return current },
	} {
		w := newWorld(t, merge)
		op := w.put(&row{key: "a", own: status.Pending()}, nil)
		op.Outcome.Object.value = "set by the operation"
		w.change("a", func(r *row) { r.other = status.Done() })
		ops, c := w.write(op)
		require.Equal(t, 1, c.Conflicts)
		require.True(t, ops[0].Effect.Conflict)
		now := w.get("a")
		require.Equal(t, status.KindDone, now.own.Kind)
		require.Equal(t, status.KindDone, now.other.Kind)
		require.Equal(t, merge != nil, now.value != "", "only a merge keeps what the operation set")
	}
}

func TestChangedKeyOfACloneIsDropped(t *testing.T) {
	w := newWorld(t, nil)
	op := w.put(&row{key: "a", own: status.Pending()}, nil)
	op.Outcome.Object.key = "b"
	_, c := w.write(op)
	require.Equal(t, 1, c.Written)
	require.Equal(t, status.KindDone, w.get("a").own.Kind)
	_, _, found := w.rows.Get(w.rows.DB.ReadTxn(), &row{key: "b"})
	require.False(t, found)
}
