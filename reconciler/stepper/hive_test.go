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

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// register registers an engine, in one of the ways that there are.
type register func(p reconciler.Params, rows statedb.RWTable[*row], engine stepper.Engine[*row]) error

// An engine that is registered runs as a job of the hive, as any reconciler.
func TestRegisteredEngineIsAJob(t *testing.T) {
	for name, f := range map[string]register{
		"Register": func(p reconciler.Params, rows statedb.RWTable[*row], engine stepper.Engine[*row]) error {
			r, err := stepper.Register(p, rows, (*row).clone, (*row).setStatus, (*row).getStatus, engine, reconciler.WithName("rows"))
			if err == nil {
				r.Prune()
				require.Zero(t, r.(*reconciler.Loop[*row]).Settings().RefreshInterval)
			}
			return err
		},
		"RegisterConfig": func(p reconciler.Params, rows statedb.RWTable[*row], engine stepper.Engine[*row]) error {
			_, err := stepper.RegisterConfig(p, reconciler.Config[*row]{
				Table: rows, Clone: (*row).clone, SetStatus: (*row).setStatus, GetStatus: (*row).getStatus,
			}, engine)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { registered(t, f) })
	}
}

func registered(t *testing.T, f register) {
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
					db, rows = p.DB, statedb.MustNewTable(p.DB, "rows", rowID)
					require.NoError(t, f(p, rows, stepper.NewStepper(hook)))
					require.EqualError(t, f(p, rows, nil), "stepper: the engine is nil")
					_, err := stepper.Register(p, rows, nil, (*row).setStatus, (*row).getStatus, stepper.NewStepper(hook))
					require.ErrorContains(t, err, "Config.Clone is nil")
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
