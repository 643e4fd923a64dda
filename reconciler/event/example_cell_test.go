// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Disk is a row. Its name is that of object.Meta.
type Disk struct {
	object.Meta
	Status reconciler.Status
}

func (d *Disk) Clone() *Disk                        { c := *d; return &c }
func (d *Disk) GetStatus() reconciler.Status        { return d.Status }
func (d *Disk) SetStatus(s reconciler.Status) *Disk { d.Status = s; return d }

// formatter formats disks. The first six attempts fail.
type formatter struct {
	events   event.Recorder
	attempts int
}

func (f *formatter) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, d *Disk) error {
	if f.attempts++; f.attempts <= 6 {
		err := errors.New("the disk is busy")
		f.events.Event(d, event.Warning("CannotFormat", err, "attempt", strconv.Itoa(f.attempts)))
		return err
	}
	f.events.Event(d, event.Normal("Formatted", "the disk has a file system", "type", "ext4"))
	return nil
}

func (f *formatter) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Disk) error {
	return nil
}

func (f *formatter) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Disk, statedb.Revision]) error {
	return nil
}

// register builds a recorder that logs and writes into the table. Of the warnings of one disk for one
// reason it passes two, and then one in an hour.
func register(params reconciler.Params, table *event.TableRecorder, log *slog.Logger, done chan struct{}) error {
	both := event.NewMultiRecorder(event.NewSlogRecorder(log), table)
	throttled, err := event.NewThrottledRecorder(both, event.Throttle{Burst: 2, Limit: rate.Every(time.Hour)})
	if err != nil {
		return err
	}
	disks := statedb.MustNewTableAny(params.DB, "disks", nil, nil, statedb.Index[*Disk, string]{
		Name: "name", Unique: true, FromKey: index.String,
		FromObject: func(d *Disk) index.KeySet { return index.NewKeySet(index.String(d.Name)) },
	})
	loop, err := reconciler.RegisterConfig(params, reconciler.Config[*Disk]{
		Table: disks, Clone: (*Disk).Clone, GetStatus: (*Disk).GetStatus, SetStatus: (*Disk).SetStatus,
		Operations: &formatter{events: throttled.WithAnnotations(event.SourceAnnotation, "disks")},
		Options:    []reconciler.Option{reconciler.WithRetry(time.Millisecond, time.Millisecond)},
	})
	if err != nil {
		return err
	}
	params.JobGroup.Add(job.OneShot("write", func(ctx context.Context, _ cell.Health) error {
		defer close(done)
		wtxn := params.DB.WriteTxn(disks)
		_, _, _ = disks.Insert(wtxn, &Disk{Meta: object.Meta{Name: "sda"}, Status: reconciler.StatusPending()})
		wtxn.Commit()
		_, err := loop.WaitAll(ctx, reconciler.Applied)
		return err
	}))
	return nil
}

// An operation in a hive records events into the table and the log.
func ExampleNewCell() {
	done := make(chan struct{})
	h := hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		event.Cell, // the table and its recorders: NewCell with the defaults
		cell.Provide(func() chan struct{} { return done }),
		cell.Module("disks", "Formats disks", cell.ProvidePrivate(job.Registry.NewGroup), cell.Invoke(register)),
	)
	log := slog.New(slog.DiscardHandler)
	if err := h.Start(log, context.Background()); err != nil {
		panic(err)
	}
	<-done
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
