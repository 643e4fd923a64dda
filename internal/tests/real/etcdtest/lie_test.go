// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// What the source has noticed of a store counts, even if the store looks as before when it is listed.
func TestStoreFromABackupThatPassesTheRevisionBeforeTheListIsListedWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a", "b", "c")
	backup := w.server.backUp()
	w.server.start()
	at := w.put("a", "10", "d", "11")
	w.delete("b")
	w.equal()

	// The source compares the store, and gets no answer when it asks again before the list.
	var failed atomic.Bool
	compared := false
	f := func(req any, call func() error, answer any) error {
		get, is := req.(*etcdserverpb.RangeRequest)
		if !is || string(get.Key) != "identity" || failed.Load() {
			return call()
		}
		if compared {
			for w.put("c", "20") < at+10 {
			}
			failed.Store(true)
			return errors.New("no answer")
		}
		err := call()
		compared = err == nil && answer.(*etcdserverpb.RangeResponse).Header.Revision < at
		return err
	}
	w.server.restore(backup)
	w.calls.Store(&f)
	w.server.start()
	await(t, "the call that fails", func() error {
		if !failed.Load() {
			return errors.New("it has not")
		}
		return nil
	})
	w.equal()
	w.have(map[string]int{"a": 1, "b": 2, "c": 20})
}

// A write without an answer may have been carried out. What was true before it is written again.
func TestAckWhoseWriteHadNoAnswerIsWrittenAgain(t *testing.T) {
	t.Parallel()
	var table *inputs.Table
	p := plan{tell: func(a *etcd.Acks) {
		forHours(a)
		a.Loop = loopOf{a.Loop, "derived"}
	}}
	p.setup = func(db *statedb.DB) {
		_, err := newRows(db, "derived")
		require.NoError(t, err)
		table, err = inputs.Open(db, "derived")
		require.NoError(t, err)
	}
	w := newWorld(t, p, "a")
	reject := func(n int) {
		wtxn := w.db.WriteTxn(table.Meta())
		table.Update(wtxn, "rows", func(row *inputs.Input) { row.Input, row.Rejected = w.table.Revision(w.db.ReadTxn()), n })
		wtxn.Commit()
	}
	reject(0)
	w.applied(1)
	reject(1)
	w.acked("the rejected object", func(a etcd.Ack) bool { return a.AppliedRevision > 0 && a.Bad == 1 })

	var lost atomic.Bool
	f := func(req any, call func() error, _ any) error {
		txn, is := req.(*etcdserverpb.TxnRequest)
		if !is || lost.Load() || len(txn.Success) != 1 || string(txn.Success[0].GetRequestPut().GetKey()) != "acks/a" {
			return call()
		}
		assert.NoError(t, call())
		reject(1)
		lost.Store(true)
		return errors.New("no answer")
	}
	w.calls.Store(&f)
	reject(0)
	await(t, "the write", func() error {
		if !lost.Load() {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	w.acked("the rejected object again", func(a etcd.Ack) bool { return a.Bad == 1 })
}

// A store from a backup has an older ack and the lease of the agent. The ack is written again, even if it says what
// was written last into the store that is gone.
func TestStoreFromABackupGetsTheAckAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{tell: forHours}, "a", "b")
	w.applied(1)
	w.awaitAlive()
	backup := w.server.backUp()
	w.server.startAfterElections()
	w.put("a", "10")
	at := w.put("a", "11")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(uint64(at)) && a.Revision == uint64(at) })
	w.equal()
	w.proxy.setRefuse(true)
	w.server.restore(backup)
	w.server.start()
	for w.put("b", "20") < at {
	}
	w.proxy.setRefuse(false)
	w.applied(at)
	w.have(map[string]int{"a": 1, "b": 20})
}

// A list by time that the sink refuses, at the revision that it has, is not complete: another one comes soon.
func TestAckIsAppliedSoonAfterAListThatWasRefused(t *testing.T) {
	long.Only(t)
	t.Parallel()
	var fails atomic.Bool
	const relist = 30 * time.Second
	w := newWorld(t, plan{
		tell:   forHours,
		config: func(c *etcd.Config[*row]) { c.Relist = relist },
		sink: func(c *source.Config[*row]) {
			c.Same = func(old, now *row) bool {
				if fails.Load() {
					panic("cannot say")
				}
				return *old == *now
			}
		},
	}, "a")
	w.applied(1)
	wtxn := w.db.WriteTxn(w.table)
	_, _, err := w.table.Insert(wtxn, &row{Key: "stray", Value: 1})
	require.NoError(t, err)
	wtxn.Commit()
	fails.Store(true)
	await(t, "a list", func() error { return w.listed("it is time") })
	time.Sleep(time.Second)
	fails.Store(false)
	began := time.Now()
	w.applied(w.put("a", "7"))
	assert.LessOrEqual(t, time.Since(began), relist/2)
}
