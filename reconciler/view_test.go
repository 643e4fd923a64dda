// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
)

// waitRow is a row that a test waits for.
type waitRow struct {
	id uint64
}

func (*waitRow) TableHeader() []string { return []string{"ID"} }

func (*waitRow) TableRow() []string { return []string{""} }

var waitRowID = statedb.Index[*waitRow, uint64]{
	Name:       "id",
	FromObject: func(r *waitRow) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// refusingTarget is a target whose operations fail.
type refusingTarget struct{}

func (refusingTarget) Update(context.Context, statedb.ReadTxn, statedb.Revision, *waitRow) error {
	return errors.New("refused")
}

func (refusingTarget) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *waitRow) error {
	return errors.New("refused")
}

func (refusingTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*waitRow, statedb.Revision]) error {
	return nil
}

// A state has the same name in figures and metrics, which use the names of the core, and in
// explanations, lists and waits.
func TestStatesHaveOneName(t *testing.T) {
	counts := [core.NumStates]int{core.Ready: 1, core.Terminal: 2}
	shown := counted(counts[:], firstShown)
	for i, state := range shown {
		require.Equal(t, state.State, string(states[int(firstShown)+i]))
	}
	require.Len(t, shown, int(core.NumStates)-1, "all states but planned")
	require.Equal(t, []int{1, 2}, []int{shown[0].Count, shown[len(shown)-1].Count})
}

// A pass without a change publishes no state, and so allocates none. A state is one allocation.
func TestStateIsPublishedOnlyIfItHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, "rows", waitRowID)
		require.NoError(t, err)
		l, err := New(Config[*waitRow]{DB: db, Table: table, Operations: refusingTarget{}, Options: []Option{WithoutPruning()}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()

		idle := l.stats.state.Load()
		was := *idle
		l.calls.made.Send()
		l.Snapshot(ctx)
		synctest.Wait()
		require.Same(t, idle, l.stats.state.Load())

		wtxn := db.WriteTxn(table)
		_, _, err = table.Insert(wtxn, &waitRow{id: 1})
		require.NoError(t, err)
		wtxn.Commit()
		synctest.Wait()
		failing := l.stats.state.Load()
		require.Equal(t, 1, failing.health.Failing)
		require.Equal(t, was, *idle, "a state that was published never changes")

		stop()
		require.NoError(t, <-ended)
		r := l.runner
		last := r.publishState()
		require.Zero(t, testing.AllocsPerRun(10, func() { r.publishState() }))
		require.Equal(t, 1.0, testing.AllocsPerRun(10, func() {
			l.stats.state.Store(idle)
			r.publishState()
		}))
		require.Equal(t, last, r.publishState())
	})
}
