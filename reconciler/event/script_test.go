// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// TestScripts runs the scripts of testdata, each a hive in a bubble of virtual time that
// begins at 2000-01-01T00:00:00Z. They are written to be read.
func TestScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scripttest.Run(t, &script.Engine{Cmds: newCommands(t)}, newState(t), "events.txtar", comment(t))
	})
}

// newHive returns a hive whose recorder is handed to record.
func newHive(use func(event.Recorder, statedb.Table[*event.Row], job.Group), cells ...cell.Cell) *hive.Hive {
	return hive.New(append(cells,
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		cell.Module("test", "Test", cell.Provide(job.Registry.NewGroup), cell.Invoke(use)),
	)...)
}

// record is a command that records an event as an operation would.
func record(recorder *event.Recorder) script.Cmd {
	return script.Command(script.CmdUsage{Summary: "Record events", Args: "times Normal|Warning object reason message"},
		func(_ *script.State, args ...string) (script.WaitFunc, error) {
			var times int
			if len(args) != 5 {
				return nil, script.ErrUsage
			}
			if _, err := fmt.Sscan(args[0], &times); err != nil {
				return nil, err
			}
			e := event.Normal(event.Reason(args[3]), args[4])
			if args[1] == string(event.TypeWarning) {
				e = event.Warning(event.Reason(args[3]), errors.New(args[4]), "broker", "eu-1")
			}
			for range times {
				(*recorder).Event(&object.Meta{Namespace: "prod", Name: args[2]}, e)
			}
			return nil, nil
		})
}

// pass is a command that lets virtual time go by.
func pass() script.Cmd {
	return script.Command(script.CmdUsage{Summary: "Let virtual time go by", Args: "duration"},
		func(_ *script.State, args ...string) (script.WaitFunc, error) {
			if len(args) != 1 {
				return nil, script.ErrUsage
			}
			d, err := time.ParseDuration(args[0])
			time.Sleep(d)
			synctest.Wait()
			return nil, err
		})
}

func newCommands(t *testing.T) map[string]script.Cmd {
	var recorder event.Recorder
	h := newHive(func(r event.Recorder, _ statedb.Table[*event.Row], _ job.Group) {
		recorder = r.WithAnnotations(event.SourceAnnotation, "tunnels")
	}, event.Cell)
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, h.Start(log, t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Stop(log, context.WithoutCancel(t.Context()))) })
	all, err := h.ScriptCommands(log)
	require.NoError(t, err)
	maps.Insert(all, maps.All(script.DefaultCmds()))
	all["record"], all["pass"] = record(&recorder), pass()
	return all
}

func TestTheStopOfAHiveLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table statedb.Table[*event.Row]
		var db *statedb.DB
		h := newHive(func(r event.Recorder, events statedb.Table[*event.Row], jobs job.Group) {
			table = events
			lastWords(jobs, r)
		}, event.Cell, cell.Invoke(func(d *statedb.DB) { db = d }))
		log := slog.New(slog.DiscardHandler)
		require.NoError(t, h.Start(log, t.Context()))
		synctest.Wait()
		require.Zero(t, table.NumObjects(db.ReadTxn()))
		require.NoError(t, h.Stop(log, t.Context()))
		require.Equal(t, 1, table.NumObjects(db.ReadTxn()))
	})
}

func TestWrongSettingsAreAnErrorOfTheHive(t *testing.T) {
	for text, events := range map[string]cell.Cell{
		"TableConfig.MaxRows is -1": event.NewCell(event.TableConfig{MaxRows: -1}, event.Throttle{}),
		"Throttle.Burst is -1":      event.NewCell(event.TableConfig{}, event.Throttle{Burst: -1}),
	} {
		h := newHive(func(event.Recorder, statedb.Table[*event.Row], job.Group) {}, events)
		require.ErrorContains(t, h.Populate(slog.New(slog.DiscardHandler)), text)
	}
}
