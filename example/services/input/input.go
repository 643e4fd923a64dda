// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"context"
	"log/slog"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Input is where services come from: a [File], an [Etcd], or [Generated].
type Input interface {
	// name is the name of the source.
	name() string
	// job returns what fills the table through a sink until its context ends.
	job(to feed) (func(context.Context) error, error)
}

// feed is how an input fills the table. The sink has a health of its own.
type feed struct {
	sink   *source.Sink[*proxy.Service]
	health cell.Health
	log    *slog.Logger
}

// Cell fills the table of services. The table is initialised with the first complete list.
func Cell(in Input) cell.Cell {
	return cell.Module("input", "Services that are wanted",
		cell.ProvidePrivate(job.Registry.NewGroup),
		cell.Invoke(func(
			jobs job.Group, health cell.Health, log *slog.Logger, registry *inspect.Registry,
			db *statedb.DB, services statedb.RWTable[*proxy.Service],
		) error {
			_, isFile := in.(*File)
			sink, err := source.New(source.Config[*proxy.Service]{
				Name: in.name(), DB: db, Table: services, Registry: registry, Health: health.NewScope("sink"), Log: log,
				AllowEmpty: isFile, // it says so: services: []
			})
			if err != nil {
				return err
			}
			run, err := in.job(feed{sink, health.NewScope(in.name()), log})
			if err != nil {
				sink.Close()
				return err
			}
			jobs.Add(job.OneShot(in.name(), func(ctx context.Context, _ cell.Health) error {
				defer sink.Close()
				return run(ctx)
			}))
			return nil
		}),
	)
}
