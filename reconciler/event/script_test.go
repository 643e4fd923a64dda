// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

func TestScripts(t *testing.T) { harness.RunScripts(t, newCommands) }

// newHive returns a hive that calls use with a recorder, the table and a job group.
func newHive(use func(event.Recorder, statedb.Table[*event.Row], job.Group), cells ...cell.Cell) *hive.Hive {
	return hive.New(append(cells,
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		cell.Module("test", "Test", cell.Provide(job.Registry.NewGroup), cell.Invoke(use)),
	)...)
}

// record returns a command that records events as an operation would.
func record(recorder *event.Recorder) script.Cmd {
	return harness.Command("Record events", "times Normal|Warning object reason message", func(args []string) (string, error) {
		var times int
		if len(args) != 5 {
			return "", script.ErrUsage
		}
		if _, err := fmt.Sscan(args[0], &times); err != nil {
			return "", err
		}
		e := event.Normal(event.Reason(args[3]), args[4])
		if args[1] == string(event.TypeWarning) {
			e = event.Warning(event.Reason(args[3]), errors.New(args[4]))
		}
		for range times {
			(*recorder).Event(&object.Meta{Namespace: "prod", Name: args[2]}, e)
		}
		return "", nil
	})
}

func newCommands(t *testing.T) (commands map[string]script.Cmd, stop func()) {
	var recorder event.Recorder
	h := newHive(func(r event.Recorder, _ statedb.Table[*event.Row], _ job.Group) {
		recorder = event.From(r, "tunnels")
	}, event.Cell)
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, h.Start(log, t.Context()))
	stop = func() { require.NoError(t, h.Stop(log, t.Context())) }
	return harness.Commands(t, h, log, map[string]script.Cmd{"record": record(&recorder)}), stop
}

// lastWords adds a job that records an event when it is stopped.
func lastWords(jobs job.Group, r event.Recorder) {
	jobs.Add(job.OneShot("last-words", func(ctx context.Context, _ cell.Health) error {
		<-ctx.Done()
		r.Event(named("web"), event.Normal("Stopped", "was stopped"))
		return nil
	}))
}

func TestStoppingTheHiveLosesNoEvents(t *testing.T) {
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
