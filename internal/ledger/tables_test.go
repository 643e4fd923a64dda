// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

func newTable(t *testing.T, db *statedb.DB, name string) statedb.RWTable[*row] {
	table, err := statedb.NewTable(db, name, statedb.Index[*row, string]{
		Name: "key", FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.key)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	})
	require.NoError(t, err)
	return table
}

func open(t *testing.T, db *statedb.DB, name string) *ledger.Tables {
	tables, err := ledger.Open(db, name, nil)
	require.NoError(t, err)
	return tables
}

// write writes an outcome and the mark in one transaction.
func write(t *testing.T, db *statedb.DB, tables *ledger.Tables, key string, mark statedb.Revision) {
	wtxn := db.WriteTxn(tables.Outcomes, tables.Mark)
	defer wtxn.Commit()
	_, _, err := tables.Outcomes.Insert(wtxn, &inspect.Outcome{ID: []byte(key), Key: key, Kind: status.KindPending})
	require.NoError(t, err)
	require.NoError(t, tables.SetMark(wtxn, mark, nil))
}

func TestMarkCoversItsRevisionsAndItsIntervals(t *testing.T) {
	for _, test := range []struct {
		mark    ledger.Mark
		covered []statedb.Revision
	}{
		{ledger.Mark{}, []statedb.Revision{0}},
		{ledger.Mark{Revision: 3}, []statedb.Revision{0, 1, 2, 3}},
		{ledger.Mark{Intervals: []observe.Range{{After: 4, UpTo: 5}}}, []statedb.Revision{0, 5}},
		{ledger.Mark{Revision: 1, Intervals: []observe.Range{{After: 3, UpTo: 4}, {After: 4, UpTo: 6}, {After: 8, UpTo: 9}}}, []statedb.Revision{0, 1, 4, 5, 6, 9}},
		{ledger.Mark{Revision: 1, Intervals: []observe.Range{{After: 3, UpTo: 3}, {After: 6, UpTo: 8}}}, []statedb.Revision{0, 1, 7, 8}},
	} {
		var covered []statedb.Revision
		for revision := range statedb.Revision(12) {
			if test.mark.Covers(revision) {
				covered = append(covered, revision)
			}
		}
		require.Equal(t, test.covered, covered, "%+v", test.mark)
	}
}

func TestMarkIsShownWithTheRevisionsOfItsIntervals(t *testing.T) {
	mark := ledger.Mark{Revision: 7, Intervals: []observe.Range{{After: 9, UpTo: 12}, {After: 20, UpTo: 21}}}
	require.Len(t, mark.TableHeader(), 2)
	require.Equal(t, []string{"7", "10-12, 21-21"}, mark.TableRow())
	mark.Intervals = make([]observe.Range, 1000)
	require.LessOrEqual(t, len(mark.TableRow()[1]), 300)
}

func TestMissingMarkCoversNothing(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	tables := open(t, db, "objects")
	wtxn := db.WriteTxn(tables.Mark)
	require.NoError(t, tables.Mark.DeleteAll(wtxn))
	txn := wtxn.Commit()
	require.Equal(t, &ledger.Mark{}, tables.Current(txn))
	require.False(t, tables.Current(txn).Covers(1))
}

func TestClosedTablesAreTakenOverAndEmptied(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	first := open(t, db, "objects")
	for i := range 1000 {
		write(t, db, first, fmt.Sprint(i), statedb.Revision(i))
	}
	_, err := ledger.Open(db, "objects", nil)
	require.EqualError(t, err, `a reconciler named "objects" has the tables "objects-outcomes" and "objects-mark"`)
	first.Close()
	require.Equal(t, 1000, first.Outcomes.NumObjects(db.ReadTxn()), "Close keeps the rows")

	second := open(t, db, "objects")
	require.Equal(t, first.Outcomes, second.Outcomes)
	require.Zero(t, second.Outcomes.NumObjects(db.ReadTxn()))
	require.Zero(t, second.Current(db.ReadTxn()).Revision)
	write(t, db, second, "a", 7)

	// The first user has no more say: neither by another Close, nor by a late write.
	first.Close()
	_, err = ledger.Open(db, "objects", nil)
	require.ErrorContains(t, err, `a reconciler named "objects" has the tables`)
	wtxn := db.WriteTxn(first.Outcomes, first.Mark)
	require.ErrorContains(t, first.SetMark(wtxn, 1000, nil), "taken over")
	wtxn.Abort()
	require.EqualValues(t, 7, second.Current(db.ReadTxn()).Revision)
}

func TestNameIsAcceptedIfStatedbAcceptsItsTables(t *testing.T) {
	for _, name := range []string{"a-b_c9", strings.Repeat("x", 22), "", "9a", "a.b", "ä", "a\n", strings.Repeat("x", 23)} {
		db := statedb.New()
		newTable(t, db, "objects-of-a-user")
		_, got := ledger.Open(db, name, nil)
		_, want := statedb.NewTable(statedb.New(), name+"-outcomes", statedb.Index[*row, string]{
			Name: "key", FromObject: func(*row) index.KeySet { return index.EmptyKeySet }, FromKey: index.String, Unique: true,
		})
		if want == nil {
			require.NoError(t, got, "%q", name)
			continue
		}
		require.ErrorContains(t, got, fmt.Sprintf("the name %q cannot be used", name))
		require.ErrorContains(t, got, fmt.Sprintf("%q, does not match statedb's rule ^[a-z][a-z0-9_\\-]{0,30}$", name+"-outcomes"))
		require.Len(t, db.GetTables(db.ReadTxn()), 1, "nothing is registered")
	}
}

func TestKeysAreReadByTheLatestUserOfTheTables(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	read := func(tables *ledger.Tables, text string) string {
		key, err := tables.Read(text)
		require.NoError(t, err)
		return string(key)
	}
	tables := open(t, db, "objects")
	require.Equal(t, "a", read(tables, "a"))
	tables.Close()
	tables, err := ledger.Open(db, "objects", func(text string) (index.Key, error) { return index.Key("x" + text), nil })
	require.NoError(t, err)
	require.Equal(t, "xa", read(tables, "a"))

	tables.Close()
	tables, err = ledger.Open(db, "objects", func(string) (index.Key, error) { return nil, errors.New("no key") })
	require.NoError(t, err)
	_, err = statedb.AnyTable{Meta: tables.Outcomes}.List(db.ReadTxn(), "id", "a")
	require.ErrorContains(t, err, "no key", "the commands of statedb read keys in the same way")
}
