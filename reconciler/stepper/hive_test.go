// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"testing"
	"testing/synctest"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// A registered engine runs as a job of the hive. It is not refreshed by default.
func TestRegisteredEnginesRunAsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			db    *statedb.DB
			rows  statedb.RWTable[*row]
			walks = make(chan uint64, 10)
		)
		hook := in(stepper.SuccessManager, func(e *stepper.Stepper[*row]) { walks <- e.Object().ID })
		h := hive.New(
			statedb.Cell, job.Cell, cell.SimpleHealthCell,
			cell.Module("test", "Test",
				cell.Provide(job.Registry.NewGroup),
				cell.Invoke(func(p reconciler.Params) {
					db, rows = p.DB, statedb.MustNewTable(p.DB, "rows", harness.ByID)
					cfg, err := stepper.Configure(reconciler.Config[*row]{
						Table: rows, Clone: (*row).Clone, SetStatus: (*row).SetStatus, GetStatus: (*row).GetStatus,
						Options: []reconciler.Option{reconciler.WithName("rows")},
					}, stepper.NewStepper(hook))
					require.NoError(t, err)
					loop, err := reconciler.RegisterConfig(p, cfg)
					require.NoError(t, err)
					loop.Prune()
					require.Zero(t, loop.Settings().RefreshInterval)
				}),
			),
		)
		require.NoError(t, h.Start(hivetest.Logger(t), t.Context()))
		wtxn := db.WriteTxn(rows)
		_, _, err := rows.Insert(wtxn, pending(7, 1))
		require.NoError(t, err)
		wtxn.Commit()
		synctest.Wait()
		require.EqualValues(t, 7, <-walks)
		require.NoError(t, h.Stop(hivetest.Logger(t), t.Context()))
	})
}
