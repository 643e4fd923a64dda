// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"

	"github.com/statekeel/statekeel/example/httpserve"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/health"
	"github.com/statekeel/statekeel/example/netagent/httpapi"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

var stateFileCell = cell.Module(
	"state-file",
	"Keeps the tables at what the state file says",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, store *desired.Store) {
		jobs.Add(job.OneShot("state-file", func(ctx context.Context, h cell.Health) error {
			return o.File.Follow(ctx, h, store, o.Log)
		}))
	}),
)

var viewCell = cell.Module(
	"view",
	"Shows how far the kernel is",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, db *statedb.DB, tables *desired.Tables, registry *health.Registry) {
		watcher := view.Watcher{
			DB: db, Tables: tables, View: o.View, Title: o.Title, Settle: o.Settle, Every: o.Every,
			Notes: func() (notes []string) {
				for _, report := range registry.Degraded() {
					notes = append(notes, report.String())
				}
				return notes
			},
		}
		// Standard output is closed: nothing reads the view any more.
		jobs.Add(job.OneShot("view", func(ctx context.Context, _ cell.Health) error { return watcher.Run(ctx) },
			job.WithShutdown()))
	}),
)

var httpCell = cell.Module(
	"http",
	"Serves metrics and tables and health and objects over HTTP",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(jobs job.Group, o Options, db *statedb.DB, tables *desired.Tables, store *desired.Store, again *desired.Again, registry *health.Registry, reconcilers *inspect.Registry, figures *prometheus.Metrics) {
		if o.Listener == nil {
			return
		}
		api := httpapi.API{
			DB: db, Tables: tables, Store: store, Again: again, Health: registry,
			Reconcilers: reconcilers, Figures: figures,
		}
		jobs.Add(job.OneShot("http", func(ctx context.Context, _ cell.Health) error {
			return httpserve.Serve(ctx, o.Listener, api.Handler())
		}, job.WithShutdown()))
	}),
)
