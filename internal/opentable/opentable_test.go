// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package opentable_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/opentable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct{ key string }

func (*row) TableHeader() []string { return []string{"Key"} }
func (r *row) TableRow() []string  { return []string{r.key} }

type other struct{ row }

func newIndex() statedb.Index[*row, string] {
	return statedb.Index[*row, string]{
		Name: "key", FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.key)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	}
}

// marked is an index of another type.
type marked struct{ statedb.Index[*row, string] }

func newTable(t *testing.T, db *statedb.DB, name string) statedb.RWTable[*row] {
	table, err := statedb.NewTable(db, name, newIndex())
	require.NoError(t, err)
	return table
}

func insert(t *testing.T, db *statedb.DB, table statedb.RWTable[*row]) {
	wtxn := db.WriteTxn(table)
	defer wtxn.Commit()
	_, _, err := table.Insert(wtxn, &row{"a"})
	require.NoError(t, err)
}

func TestMissingTablesAreRegisteredOnce(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	first := newTable(t, db, "first")
	for range 2 {
		var got, second statedb.RWTable[*row]
		require.NoError(t, opentable.Open(db,
			opentable.Of("first", "a test", newIndex, &got), opentable.Of("second", "a test", newIndex, &second)))
		require.Equal(t, first, got)
		require.Equal(t, second, db.GetTable(db.ReadTxn(), "second"))
		insert(t, db, second)
	}
	require.Len(t, db.GetTables(db.ReadTxn()), 3)
}

func TestTablesOfOthersAreErrorsAndNothingIsRegistered(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "foreign")
	var table statedb.RWTable[*row]
	var others statedb.RWTable[*other]
	otherIndex := func() statedb.Index[*other, string] {
		return statedb.Index[*other, string]{
			Name: "key", FromObject: func(o *other) index.KeySet { return index.NewKeySet(index.String(o.key)) },
			FromKey: index.String, Unique: true,
		}
	}
	err := opentable.Open(db, opentable.Of("new", "a test", newIndex, &table),
		opentable.Of("foreign", "a test", otherIndex, &others))
	require.ErrorContains(t, err, `the database has a table "foreign" that was not made by a test: *statedb.genTable`)
	require.Nil(t, others)

	err = opentable.Open(db, opentable.Of("new", "a test", newIndex, &table),
		opentable.Of("foreign", "a test", func() marked { return marked{newIndex()} }, &table))
	require.ErrorContains(t, err, `"foreign" that was not made by a test`)
	require.Len(t, db.GetTables(db.ReadTxn()), 1)
}

func TestNoTableIsLostWhileOthersCommitAndRegister(t *testing.T) {
	const names = 30
	db := statedb.New()
	objects := newTable(t, db, "objects")
	var all sync.WaitGroup
	for opener := range 3 {
		all.Go(func() {
			for i := range names {
				// Each opener opens all names, from another one on.
				var table statedb.RWTable[*row]
				name := fmt.Sprintf("name-%d", (i+10*opener)%names)
				assert.NoError(t, opentable.Open(db, opentable.Of(name, "a test", newIndex, &table)))
				insert(t, db, table)
				insert(t, db, objects)
			}
		})
	}
	all.Wait()
	tables := db.GetTables(db.ReadTxn())
	require.Len(t, tables, 1+names)
	for _, table := range tables {
		require.Equal(t, 1, table.NumObjects(db.ReadTxn()), "the rows are not lost with the table")
	}
}

func TestNamesThatStatedbRefusesAreErrors(t *testing.T) {
	db := statedb.New()
	newTable(t, db, "objects")
	var table statedb.RWTable[*row]
	require.ErrorContains(t, opentable.Open(db, opentable.Of("A", "a test", newIndex, &table)), `invalid table name "A"`)
	require.False(t, opentable.NameRule.MatchString("A"))
}

func TestTablesAreRegisteredWhileAnotherIsLocked(t *testing.T) {
	db := statedb.New()
	objects := newTable(t, db, "objects")
	wtxn := db.WriteTxn(objects)
	var table statedb.RWTable[*row]
	require.NoError(t, opentable.Open(db, opentable.Of("new", "a test", newIndex, &table)))
	insert(t, db, table)
	wtxn.Commit()
	require.Equal(t, 1, table.NumObjects(db.ReadTxn()))
}
