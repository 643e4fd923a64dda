// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Disk is an object. Its name is that of object.Meta.
type Disk struct{ object.Meta }

// format formats a disk, as an operation would. The first two attempts fail.
func format(d *Disk, events event.Recorder) {
	for attempt := range 2 {
		events.Event(d, event.Warning("CannotFormat", fmt.Errorf("attempt %d: the disk is busy", attempt+1)))
	}
	events.Event(d, event.Normal("Formatted", "the disk has a file system"))
}

func register(recorder event.Recorder, jobs job.Group) {
	jobs.Add(job.OneShot("format", func(context.Context, cell.Health) error {
		format(&Disk{object.Meta{Name: "sda"}}, event.From(recorder, "disks"))
		return nil
	}))
}

// A job of a hive records events in the table.
func Example_cell() {
	h := hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		event.Cell, // the table and its recorder
		cell.Module("disks", "Formats disks", cell.ProvidePrivate(job.Registry.NewGroup), cell.Invoke(register)),
	)
	log := slog.New(slog.DiscardHandler)
	if err := h.Start(log, context.Background()); err != nil {
		panic(err)
	}
	if err := h.Stop(log, context.Background()); err != nil {
		panic(err)
	}
	show(h, "db/show --columns=Object,Type,Reason,Count,Message events")
	// Output:
	// Object      Type      Reason         Count   Message
	// disks:sda   Normal    Formatted      1       the disk has a file system
	// disks:sda   Warning   CannotFormat   2       attempt 2: the disk is busy
}

// show runs a command of hive's shell.
func show(h *hive.Hive, command string) {
	commands, err := h.ScriptCommands(slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	state, err := script.NewState(context.Background(), os.TempDir(), nil)
	if err != nil {
		panic(err)
	}
	engine := script.Engine{Cmds: commands}
	if err := engine.ExecuteLine(state, command, io.Discard); err != nil {
		panic(err)
	}
	fmt.Print(state.Stdout())
}
