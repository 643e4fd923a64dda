// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// row is a row of the observed table.
type row struct {
	id     uint64
	status status.Status
}

func (*row) TableHeader() []string { return []string{"ID"} }
func (r *row) TableRow() []string  { return []string{fmt.Sprint(r.id)} }

var rowID = statedb.Index[*row, uint64]{
	Name:       "id",
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// env is an Observer of a table, and a core whose rounds have at most size items.
type env struct {
	*testing.T
	*observe.Observer[*row]
	db    *statedb.DB
	table statedb.RWTable[*row]
	core  *core.Core[*row]
	size  int
	now   time.Duration
	// target is the argument of UpdateCatchUp.
	target observe.Target
	// since is the highest revision that Since returns; 0 if there is no window.
	since statedb.Revision
	// snapshot is the revision of the main cursor's snapshot.
	snapshot statedb.Revision
	// called has the hooks that were called, with their objects.
	called []string
	// txn is the transaction of the last round, items its operations.
	txn   statedb.ReadTxn
	items []core.Operation[*row]
}

func newEnv(t *testing.T, size int) *env {
	return newEnvOf(t, size, func(db *statedb.DB, table statedb.RWTable[*row]) *rows.Rows[*row] {
		return rows.New(db, table, rows.Functions[*row]{GetStatus: func(r *row) status.Status { return r.status }})
	})
}

// newEnvBeside is newEnv for rows without a status.
func newEnvBeside(t *testing.T, size int) *env {
	return newEnvOf(t, size, func(db *statedb.DB, table statedb.RWTable[*row]) *rows.Rows[*row] {
		return rows.NewBeside(db, table)
	})
}

func newEnvOf(t *testing.T, size int, rowsOf func(*statedb.DB, statedb.RWTable[*row]) *rows.Rows[*row]) *env {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	e := &env{T: t, db: db, table: table, size: size, target: observe.Target{Workers: 1}}
	of := rowsOf(db, table)
	e.core = core.New(core.Config[*row]{
		KeyOf: func(r *row) []byte { return of.Key(r) }, SamePending: of.SamePending,
		Limits: core.Limits{RoundSize: size, MinBackoff: time.Second, MaxBackoff: time.Minute},
	})
	note := func(hook string) func(*row) {
		return func(r *row) { e.called = append(e.called, fmt.Sprint(hook, " ", r.id)) }
	}
	e.Observer = observe.New(observe.Config[*row]{
		Rows: of, Core: e.core, Waits: e,
		Hooks: observe.Hooks[*row]{
			Deletion:   note("deleted"),
			Forgotten:  func(r *row, _ statedb.Revision) { note("forgotten")(r) },
			Back:       func(r *row, _ statedb.Revision) { note("back")(r) },
			FirstUnset: func(r *row, _ statedb.Revision) { note("unset")(r) },
		},
	})
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(e.Stop)
	return e
}

func (e *env) HasWindows() bool { return e.since > 0 }

func (e *env) Since(_ uint64, revision statedb.Revision) statedb.Revision {
	return min(e.since, revision)
}

func (e *env) NoteSnapshot(last, snapshot statedb.Revision) {
	e.called = append(e.called, fmt.Sprintf("took %d after %d", snapshot, last))
	e.snapshot = snapshot
}

// put writes rows with a status, in one transaction.
func (e *env) put(s func() status.Status, ids ...uint64) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	for _, id := range ids {
		_, _, err := e.table.Insert(wtxn, &row{id, s()})
		require.NoError(e, err)
	}
}

func (e *env) delete(ids ...uint64) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	for _, id := range ids {
		_, _, err := e.table.Delete(wtxn, &row{id: id})
		require.NoError(e, err)
	}
}

// begin begins a round, and returns the IDs of the objects of its operations, negative for deletions. more
// reports that the channel of End is closed.
func (e *env) begin() (planned []int, more bool) {
	e.UpdateCatchUp(e.now, e.target)
	e.core.Begin(e.now, e.size, e.CatchingUp())
	e.txn = e.db.ReadTxn()
	e.Begin(e.txn)
	e.items = nil
	for op := (core.Operation[*row]{}); e.core.Next(&op, e.Observer); op = (core.Operation[*row]{}) {
		id := int(op.Obj.id)
		if op.Deleted {
			id = -id
		}
		planned, e.items = append(planned, id), append(e.items, op)
	}
	watch := e.End(e.now)
	select {
	case <-watch:
		more = true
	default:
	}
	return planned, more
}

// end ends the round: its first ran items are done, each after the time took. The others are taken
// back.
func (e *env) end(ran int, took time.Duration) {
	for i := len(e.items) - 1; i >= ran; i-- {
		e.core.Recall(e.now, &e.items[i])
	}
	for i := range e.items[:ran] {
		it := &e.items[i]
		e.CallRevision(it.Revision, it.Deleted, e.txn)
		e.now += took
		e.NoteTook(took)
		e.core.Settle(e.now, it, core.Outcome[*row]{Kind: core.Done, Object: it.Obj, NewRevision: it.Revision})
	}
}

// round runs a round in which everything is done in no time, and returns its plan.
func (e *env) round() []int {
	planned, _ := e.begin()
	e.end(len(planned), 0)
	return planned
}

// roundsUntilCatchingUp runs rounds against a slow target until there is a catch-up cursor, and returns what they
// ran.
func (e *env) roundsUntilCatchingUp() (ran []int) {
	for !e.CatchingUp() {
		planned, _ := e.begin()
		ran = append(ran, planned...)
		e.end(len(planned), slow)
	}
	return ran
}

// rounds runs rounds, in which each object takes a time, until nothing is planned. It returns all
// their plans.
func (e *env) rounds(took time.Duration) (planned []int) {
	for {
		ids, _ := e.begin()
		e.end(len(ids), took)
		if len(ids) == 0 && !e.Behind() {
			return planned
		}
		planned = append(planned, ids...)
	}
}

// revision returns the revision of the table.
func (e *env) revision() statedb.Revision { return e.table.Revision(e.db.ReadTxn()) }

// hooks returns the hooks that were called since the last call.
func (e *env) hooks() []string {
	called := e.called
	e.called = nil
	return called
}

// list returns the numbers of a range, including both ends.
func list(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

func ids(from, to int) []uint64 {
	var all []uint64
	for i := range slices.Values(list(from, to)) {
		all = append(all, uint64(i))
	}
	return all
}
