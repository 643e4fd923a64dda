// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

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
