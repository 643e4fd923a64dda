// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/status"
)

type row struct {
	id     uint64
	status status.Status
}

func (*row) TableHeader() []string { return []string{"ID", "Status"} }
func (r *row) TableRow() []string  { return []string{"", r.status.String()} }

var (
	rowID = statedb.Index[*row, uint64]{
		Name:       "id",
		FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
		FromKey:    index.Uint64,
		FromString: index.Uint64String,
		Unique:     true,
	}
	rowStatus = status.NewIndex(func(r *row) status.Status { return r.status })
)

// rows is a table of rows in a database of its own.
type rows struct {
	t     *testing.T
	db    *statedb.DB
	table statedb.RWTable[*row]
}

func newRows(t *testing.T, secondary ...statedb.Indexer[*row]) *rows {
	db := statedb.New()
	table, err := statedb.NewTable(db, "routes", rowID, secondary...)
	require.NoError(t, err)
	return &rows{t, db, table}
}

func (r *rows) put(id uint64, st status.Status) {
	txn := r.db.WriteTxn(r.table)
	defer txn.Abort()
	_, _, err := r.table.Insert(txn, &row{id, st})
	require.NoError(r.t, err)
	txn.Commit()
}

func (r *rows) delete(id uint64) {
	txn := r.db.WriteTxn(r.table)
	defer txn.Abort()
	_, _, err := r.table.Delete(txn, &row{id: id})
	require.NoError(r.t, err)
	txn.Commit()
}

func TestIndexFindsObjectsByKind(t *testing.T) {
	r := newRows(t, rowStatus)
	for i, kind := range allKinds {
		r.put(uint64(i), status.Status{Kind: kind})
		r.put(uint64(100+i), status.Status{Kind: kind})
	}
	r.put(1, status.Done())

	ids := func(kind status.Kind) (ids []uint64) {
		for obj := range r.table.List(r.db.ReadTxn(), rowStatus.Query(kind)) {
			ids = append(ids, obj.id)
		}
		return ids
	}
	assert.Equal(t, []uint64{0, 100}, ids(status.KindUnset))
	assert.Equal(t, []uint64{101}, ids(status.KindPending))
	assert.Equal(t, []uint64{2, 102}, ids(status.KindRefreshing))
	assert.Equal(t, []uint64{1, 3, 103}, ids(status.KindDone))
	assert.Equal(t, []uint64{4, 104}, ids(status.KindError))
	assert.Equal(t, []uint64{5, 105}, ids(status.KindBlocked))
}

func TestIndexTakesWordsAndRejectsUnknownOnes(t *testing.T) {
	assert.Equal(t, "status", rowStatus.Name)
	assert.False(t, rowStatus.Unique)
	for _, kind := range allKinds {
		key, err := rowStatus.FromString(kind.String())
		require.NoError(t, err)
		assert.Equal(t, rowStatus.FromKey(kind), key)
	}
	_, err := rowStatus.FromString("Broken")
	assert.ErrorContains(t, err, `"Broken"`)
}

func TestWaitLastsWhileAnyObjectIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(t, rowStatus)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, status.WaitForReconciliation(ended, r.db, r.table, rowStatus), "an empty table")
		r.put(1, status.Status{})
		r.put(2, status.Done())
		assert.NoError(t, status.WaitForReconciliation(ended, r.db, r.table, rowStatus), "nothing is unfinished")

		r.put(2, status.Pending())
		var returned atomic.Bool
		go func() {
			assert.NoError(t, status.WaitForReconciliation(t.Context(), r.db, r.table, rowStatus))
			returned.Store(true)
		}()
		for i, step := range []func(){
			func() { r.put(1, status.Done()) },
			func() { r.put(3, status.Pending()) },
			func() { r.delete(2) },
			func() { r.put(3, status.Error(nil)) },
			func() { r.put(4, status.Blocked("device")) },
			func() { r.put(3, status.Done()) },
			func() { r.put(4, status.Refreshing()) },
		} {
			step()
			synctest.Wait() // for the waiter to have seen the change
			assert.False(t, returned.Load(), "step %d", i)
		}
		r.put(4, status.Done())
		synctest.Wait() // for the waiter to return
		assert.True(t, returned.Load())
	})
}

func TestEndedWaitNamesTheTableAndCountsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(t, rowStatus)
		for id := range uint64(3) {
			r.put(id, status.Pending())
		}
		r.put(10, status.Refreshing())
		r.put(20, status.Error(nil))
		r.put(21, status.Error(nil))
		r.put(30, status.Blocked("device"))
		r.put(40, status.Done())

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := status.WaitForReconciliation(ctx, r.db, r.table, rowStatus)
		assert.Equal(t, time.Minute, time.Since(start))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, `table "routes" is not reconciled: 1 Blocked, 2 Error, 1 Refreshing, 3 Pending: context deadline exceeded`)
	})
}

func TestWaitForATableWithoutTheIndexIsAnError(t *testing.T) {
	r := newRows(t)
	err := status.WaitForReconciliation(t.Context(), r.db, r.table, rowStatus)
	assert.EqualError(t, err, `table "routes" has no index "status" to wait on`)
}

// countingTable counts its reads.
type countingTable struct {
	statedb.Table[*row]
	looks atomic.Int32
}

func (c *countingTable) List(txn statedb.ReadTxn, query statedb.Query[*row]) iter.Seq2[*row, statedb.Revision] {
	c.looks.Add(1)
	return c.Table.List(txn, query)
}

func TestWaitSleepsWhileOneUnfinishedObjectStaysAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(t, rowStatus)
		r.put(1, status.Error(nil))
		table := &countingTable{Table: r.table}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- status.WaitForReconciliation(ctx, r.db, table, rowStatus) }()
		synctest.Wait() // for the waiter to sleep
		looks := table.looks.Load()

		time.Sleep(24 * time.Hour)
		assert.Equal(t, looks, table.looks.Load(), "it polls")

		for id := range uint64(100) {
			r.put(100+id, status.Pending())
			synctest.Wait() // for the waiter to sleep again, if it was woken
			r.put(100+id, status.Done())
			synctest.Wait()
		}
		assert.Equal(t, looks, table.looks.Load(), "others wake it although the failed object has not changed")

		r.put(1, status.Done())
		assert.NoError(t, <-ended)
	})
}
