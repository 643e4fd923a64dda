// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event

import (
	"context"
	"log/slog"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
)

// Cell is [NewCell] with the defaults.
var Cell = NewCell(TableConfig{}, Throttle{})

// NewCell returns a cell that provides the table of events, as a [statedb.Table] of [Row], and two
// recorders: a [Recorder] that throttles warnings and writes into the table, and the
// [TableRecorder] behind it, from which a program can build its own, such as one that also logs.
// Events that are recorded while the hive stops are written if the jobs that record them depend on
// the recorder: they are then stopped before it. Invalid settings are an error when the hive is
// populated.
func NewCell(c TableConfig, t Throttle) cell.Cell {
	return cell.Module("events", "Table of what happened to objects",
		cell.ProvidePrivate(
			func() (TableConfig, Throttle) { return c, t },
			NewTable,
			job.Registry.NewGroup,
		),
		cell.Provide(
			statedb.RWTable[*Row].ToTable,
			registerRecorder,
			func(r *TableRecorder, t Throttle) (Recorder, error) { return NewThrottledRecorder(r, t) },
		),
		// Make the table even if no other cell uses a recorder.
		cell.Invoke(func(*TableRecorder) {}),
	)
}

func registerRecorder(db *statedb.DB, table statedb.RWTable[*Row], log *slog.Logger, c TableConfig, jobs job.Group) (*TableRecorder, error) {
	r, err := NewTableRecorder(db, table, log, c)
	if err != nil {
		return nil, err
	}
	jobs.Add(job.OneShot("record", func(ctx context.Context, _ cell.Health) error { return r.Run(ctx) }))
	return r, nil
}
