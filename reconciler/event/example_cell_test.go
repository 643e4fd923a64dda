// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Disk is an object. Its name is that of object.Meta.
type Disk struct{ object.Meta }

// format formats a disk, as an operation would. The first six attempts fail.
func format(d *Disk, events event.Recorder) {
	for attempt := range 6 {
		err := errors.New("the disk is busy")
		events.Event(d, event.Warning("CannotFormat", err, "attempt", strconv.Itoa(attempt+1)))
	}
	events.Event(d, event.Normal("Formatted", "the disk has a file system", "type", "ext4"))
}

// register builds a recorder that logs and writes into the table. Of the warnings of one disk for one
// reason it passes two, and then one in an hour.
func register(table *event.TableRecorder, log *slog.Logger, jobs job.Group) error {
	both := event.NewMultiRecorder(event.NewSlogRecorder(log), table)
	throttled, err := event.NewThrottledRecorder(both, event.Throttle{Burst: 2, Limit: rate.Every(time.Hour)})
	if err != nil {
		return err
	}
	jobs.Add(job.OneShot("format", func(context.Context, cell.Health) error {
		format(&Disk{object.Meta{Name: "sda"}}, throttled.WithAnnotations(event.SourceAnnotation, "disks"))
		return nil
	}))
	return nil
}

// A job of a hive records events into the table and the log.
func ExampleNewCell() {
	h := hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		event.Cell, // the table and its recorders: NewCell with the defaults
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
	// disks:sda   Normal    Formatted      1       the disk has a file system (type=ext4)
	// disks:sda   Warning   CannotFormat   2       the disk is busy (attempt=2)
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
