// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package harness

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
)

// Insert inserts or replaces rows of a table in one transaction.
func Insert[Obj any](t testing.TB, db *statedb.DB, table statedb.RWTable[Obj], objs ...Obj) {
	t.Helper()
	wtxn := db.WriteTxn(table)
	defer wtxn.Commit()
	for _, obj := range objs {
		_, _, err := table.Insert(wtxn, obj)
		require.NoError(t, err)
	}
}

// Delete deletes rows of a table in one transaction.
func Delete[Obj any](t testing.TB, db *statedb.DB, table statedb.RWTable[Obj], objs ...Obj) {
	t.Helper()
	wtxn := db.WriteTxn(table)
	defer wtxn.Commit()
	for _, obj := range objs {
		_, _, err := table.Delete(wtxn, obj)
		require.NoError(t, err)
	}
}
