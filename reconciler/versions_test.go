// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// slowNames is a nameTarget whose update of a name takes a second.
type slowNames struct {
	*nameTarget
	slow string
}

func (s slowNames) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *named) error {
	if row.Name == s.slow {
		time.Sleep(time.Second)
	}
	return s.nameTarget.Update(ctx, txn, revision, row)
}

// losesKeys runs a loop of names in whose rows a function of the program loses the key of "bad", which statedb
// drops silently. Row "good" is written while the operation on "bad" runs, and must be applied.
func losesKeys(t *testing.T, change func(cfg *reconciler.Config[*named]), meanwhile func(e *reconcilertest.Env[*named])) {
	target := noNames()
	reconcilertest.Run(t, func(db *statedb.DB) (statedb.RWTable[*named], error) {
		return statedb.NewTable(db, "names", byName)
	}, func(e *reconcilertest.Env[*named]) {
		cfg := reconciler.Config[*named]{
			DB: e.DB, Table: e.Table, Operations: slowNames{target, "bad"}, Health: e.Health, Options: exact(reconciler.WithoutPruning()),
			Clone:     func(n *named) *named { c := *n; return &c },
			GetStatus: func(n *named) reconciler.Status { return n.Status },
			SetStatus: func(n *named, s reconciler.Status) *named { n.Status = s; return n },
		}
		change(&cfg)
		e.Start(cfg)
		e.Insert(wantedName("bad"))
		time.Sleep(500 * time.Millisecond)
		meanwhile(e)
		e.Insert(wantedName("good"))
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(e, target.holds("good"), "the change of another row is lost")
	})
}

// A row that SetStatus gives no key is not written, so it is no revision that the loop wrote.
func TestSetStatusThatLosesTheKeyHidesNoOtherRow(t *testing.T) {
	losesKeys(t, func(cfg *reconciler.Config[*named]) {
		cfg.SetStatus = func(n *named, s reconciler.Status) *named {
			n.Status = s
			if n.Name == "bad" {
				n.Name = "keyless"
			}
			return n
		}
	}, func(*reconcilertest.Env[*named]) {})
}

// The same for Merge.
func TestMergeThatLosesTheKeyHidesNoOtherRow(t *testing.T) {
	losesKeys(t, func(cfg *reconciler.Config[*named]) {
		cfg.Merge = func(_, _ *named) *named { return &named{Name: "keyless"} }
	}, func(e *reconcilertest.Env[*named]) {
		// Another reconciler writes the row.
		e.Write(func(wtxn statedb.WriteTxn) {
			row, _, _ := e.Table.Get(wtxn, byName.Query("bad"))
			c := *row
			_, _, err := e.Table.Insert(wtxn, &c)
			require.NoError(e, err)
		})
	})
}

// derived returns the status of a row whose Note says which value was applied: a row with another value asks for
// an update, even if the program did not set the status.
func derived(o *object) reconciler.Status {
	s := o.Status
	if s.Kind == reconciler.StatusKindDone && o.Note != strconv.Itoa(o.Value) {
		s.Kind = reconciler.StatusKindPending
	}
	return s
}

// The value is changed while the operation runs, and the status is put onto the changed row. GetStatus says that this
// row asks for an operation, so it is run.
func TestRowThatStillAsksWithItsOutcomeIsRun(t *testing.T) {
	for _, workers := range []int{1, 4} {
		inBubble(t, func(e *env) {
			e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
			e.put(1, 1)
			e.pass(500 * time.Millisecond)
			e.write(func(wtxn statedb.WriteTxn) {
				o := e.get(1).Clone()
				o.Value = 2
				_, _, err := e.table.Insert(wtxn, o)
				require.NoError(e, err)
			})
			e.pass(time.Minute)
			require.Equal(e, map[uint64]int{1: 2}, e.target.holds(), "%d workers, row %+v", workers, e.get(1))
		}, func(e *env, cfg *reconciler.Config[*object]) {
			cfg.GetStatus = derived
			e.target.mutate = func(o *object) { o.Note = strconv.Itoa(o.Value) }
		}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
	}
}

// While an operation runs, the row loses its status, and then the program inserts the first version again. The
// operation fails, and its status is put onto the row: it is retried.
func TestFailureOfARowThatGotItsStatusBackIsRetried(t *testing.T) {
	for range long.Times(3) {
		inBubble(t, func(e *env) {
			e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
			e.target.failing("no")
			e.put(1, 1)
			e.pass(100 * time.Millisecond)
			first := e.get(1)
			insert := func(s reconciler.Status) {
				e.write(func(wtxn statedb.WriteTxn) {
					o := first.Clone()
					o.Status = s
					_, _, err := e.table.Insert(wtxn, o)
					require.NoError(e, err)
				})
			}
			insert(reconciler.Status{})
			time.Sleep(900 * time.Millisecond)
			insert(first.Status)
			e.pass(10 * time.Second)
			e.target.failing("")
			e.pass(time.Hour)
			e.eachDone()
		}, nil, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
		if t.Failed() {
			return
		}
	}
}

// echoTable is a table that inserts one more row, which is Pending, with each status that is written.
type echoTable struct{ statedb.RWTable[*object] }

func (t echoTable) CompareAndSwap(wtxn statedb.WriteTxn, revision statedb.Revision, o *object) (*object, bool, error) {
	old, found, err := t.RWTable.CompareAndSwap(wtxn, revision, o)
	if err == nil && found && o.ID < 100 {
		_, _, err = t.RWTable.Insert(wtxn, &object{ID: 100 + o.ID, Value: o.Value, Status: reconciler.StatusPending()})
	}
	return old, found, err
}

// What the table of the program writes in the transaction of the loop is not written by the loop.
func TestRowThatTheTableAddsIsRead(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Minute)
		require.Equal(e, map[uint64]int{1: 1, 101: 1}, e.target.holds())
	}, func(e *env, cfg *reconciler.Config[*object]) { cfg.Table = echoTable{e.table} }, reconciler.WithoutPruning())
}
