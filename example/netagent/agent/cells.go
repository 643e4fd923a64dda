// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var stateFileCell = cell.Module(
	"state-file",
	"Keeps the tables at what the state file says",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, db *statedb.DB, tables *desired.Tables, registry *inspect.Registry, h cell.Health) error {
		store, err := desired.NewStore(db, tables, registry, h.NewScope("state-file"))
		if err != nil {
			return err
		}
		jobs.Add(job.OneShot("state-file", func(ctx context.Context, _ cell.Health) error {
			return store.Follow(ctx, o.File, o.Log)
		}))
		return nil
	}),
)

var viewCell = cell.Module(
	"view",
	"Shows how far the kernel is",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, db *statedb.DB, tables *desired.Tables, registry *health.Registry) {
		watcher := o.View
		watcher.DB, watcher.Tables = db, tables
		watcher.Notes = func() (notes []string) {
			for _, report := range registry.Degraded() {
				notes = append(notes, report.String())
			}
			return notes
		}
		// Standard output is closed: nothing reads the view any more.
		jobs.Add(job.OneShot("view", func(ctx context.Context, _ cell.Health) error { return watcher.Run(ctx) },
			job.WithShutdown()))
	}),
)
