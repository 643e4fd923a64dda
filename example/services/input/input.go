// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Input is where services come from: a [File], a [Cluster], or [Generated].
type Input interface {
	// name is the name of the sources.
	name() string
	// apart reports whether services and slices are lists of their own, each with its troubles, and none ever empty.
	apart() bool
	// job returns what fills the tables through the sinks until its context ends.
	job(services *source.Sink[*proxy.Service], slices *source.Sink[*proxy.EndpointSlice], log *slog.Logger) (
		func(context.Context) error, error)
}

// Cell fills the tables of services and of slices. Each is initialised with the first complete list.
func Cell(in Input) cell.Cell {
	return cell.Module("input", "Services that are wanted",
		cell.ProvidePrivate(job.Registry.NewGroup),
		cell.Invoke(func(
			jobs job.Group, health cell.Health, log *slog.Logger, registry *inspect.Registry,
			db *statedb.DB, services statedb.RWTable[*proxy.Service], slices statedb.RWTable[*proxy.EndpointSlice],
		) error {
			toServices, err := newSink(in, db, services, registry, health.NewScope("services"), log)
			if err != nil {
				return err
			}
			var ofSlices cell.Health // nil if both read one list: then one of them tells what is wrong with it
			if in.apart() {
				ofSlices = health.NewScope("slices")
			}
			toSlices, err := newSink(in, db, slices, registry, ofSlices, log)
			if err != nil {
				toServices.Close()
				return err
			}
			closeAll := func() {
				toServices.Close()
				toSlices.Close()
			}
			run, err := in.job(toServices, toSlices, log)
			if err != nil {
				closeAll()
				return err
			}
			jobs.Add(job.OneShot(in.name(), func(ctx context.Context, _ cell.Health) error {
				defer closeAll()
				if err := run(ctx); ctx.Err() == nil {
					return err
				}
				return nil // it has ended with its context
			}))
			return nil
		}),
	)
}

func newSink[Row any](
	in Input, db *statedb.DB, table statedb.RWTable[Row], registry *inspect.Registry, health cell.Health, log *slog.Logger,
) (*source.Sink[Row], error) {
	return source.New(source.Config[Row]{
		Name: in.name(), DB: db, Table: table, Registry: registry, Health: health, Log: log,
		AllowEmpty: !in.apart(), // a file says so: services: []
	})
}

// both runs two sources until the context ends.
func both(services, slices func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- services(ctx) }()
		err := slices(ctx)
		return errors.Join(<-ended, err)
	}
}
