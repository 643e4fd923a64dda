// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// A registered trigger runs as a job of the hive, under the documented names, and releases its source
// when the hive stops.
func TestRegisteredTriggerIsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			db      *statedb.DB
			objects statedb.RWTable[*object]
			ports   statedb.RWTable[*port]
			health  *cell.SimpleHealth
			target  = newTarget()
		)
		h := hive.New(
			statedb.Cell, job.Cell, cell.SimpleHealthCell,
			cell.Module("test", "Test",
				cell.Provide(job.Registry.NewGroup),
				cell.Invoke(func(p reconciler.Params, s *cell.SimpleHealth) {
					db, health = p.DB, s
					objects = statedb.MustNewTable(db, "objects", harness.ByID, noteIndex)
					ports = statedb.MustNewTable(db, "ports", portIndex)
					target.ports = ports
					loop, err := reconciler.RegisterConfig(p, reconciler.Config[*object]{
						Table: objects,
						Clone: (*object).Clone, SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
						Operations: target,
						Options:    []reconciler.Option{reconciler.WithName("objects"), reconciler.WithoutPruning()},
					})
					require.NoError(t, err)
					require.NoError(t, trigger.Register(p, loop, ports, onPort))
				}),
			),
		)
		require.NoError(t, h.Start(hivetest.Logger(t), t.Context()))
		synctest.Wait()

		wtxn := db.WriteTxn(objects, ports)
		_, _, err := objects.Insert(wtxn, &object{ID: 1, Note: "eth0", Status: reconciler.StatusPending()})
		require.NoError(t, err)
		_, _, err = ports.Insert(wtxn, &port{Name: "eth0", Value: 1})
		require.NoError(t, err)
		wtxn.Commit()
		synctest.Wait()
		require.Equal(t, 1, target.holds()[1])

		wtxn = db.WriteTxn(ports)
		_, _, err = ports.Insert(wtxn, &port{Name: "eth0", Value: 2})
		require.NoError(t, err)
		wtxn.Commit()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 2, target.holds()[1])

		job := health.GetChild("job-trigger-ports-objects")
		require.NotNil(t, job)
		require.Equal(t, cell.StatusOK, job.Level)
		require.Equal(t, `OK, following table "ports"`, job.Status)
		require.NoError(t, h.Stop(hivetest.Logger(t), t.Context()))
	})
}
