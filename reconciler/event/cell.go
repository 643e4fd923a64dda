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

// NewCell returns a cell that provides the table of events, as a [statedb.Table] of [Row], and
// two recorders: a [Recorder], which throttles the warnings that go into the table, and the
// [TableRecorder] behind it, for those who want to build their own, such as one that logs,
// too. What is recorded when the hive stops is written, if the jobs that record depend on the
// recorder: they are then stopped before it. Settings that are wrong are an error when the
// hive is made.
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
		// The table is to be there for people, whether somebody records or not.
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
