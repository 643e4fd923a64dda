// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Options are the settings of a proxy.
type Options struct {
	// Resync is the interval in which the kernel is listed and compared; zero means only at the start.
	Resync time.Duration
}

// Cell keeps the target at what the tables of services and slices want. It provides the tables, the derivation and the loop.
// Beside it a program needs statedb.Cell, job.Cell, inspect.Cell, and cells that provide a cell.Health, [Options] and a
// [Target], which is a kernel.Table except in tests.
//
// Nothing is derived, or deleted from the kernel, before both tables are initialized. So an input has to register an
// initializer with each before the start, and to complete it with the first complete list; source.New does that. Otherwise
// each restart deletes all services, and all endpoints, until they are written again.
var Cell = cell.Module("services", "Services of the node",
	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Provide(NewServices, NewSlices, NewFrontends, newLoop, newJoin),
	cell.Invoke(func(*Join) {}),
)

func newJoin(
	params reconciler.Params, health cell.Health, registry *inspect.Registry, services statedb.RWTable[*Service],
	endpoints statedb.RWTable[*EndpointSlice], frontends statedb.RWTable[*Frontend], _ *reconciler.Loop[*Frontend],
) (*Join, error) {
	cfg := derive.Config[*Frontend]{DB: params.DB, Log: params.Log, Health: health, Registry: registry}
	j, err := Derive(cfg, services, endpoints, frontends)
	if err == nil {
		if registry != nil { // it waits for its inputs before it runs, and can be asked meanwhile
			registry.Add(j.Derived)
		}
		params.JobGroup.Add(job.OneShot("derive", func(ctx context.Context, _ cell.Health) error {
			defer j.Close()
			return j.Run(ctx)
		}))
	}
	return j, err
}

func newLoop(
	params reconciler.Params, o Options, registry *inspect.Registry, target Target, frontends statedb.RWTable[*Frontend],
) (*reconciler.Loop[*Frontend], error) {
	ops := newOperations(target)
	cfg := config(ops, frontends, o)
	cfg.Options = append(cfg.Options, reconciler.WithName(FrontendsTable), reconciler.WithRegistry(registry))
	loop, err := reconciler.RegisterConfig(params, cfg)
	if err != nil {
		return nil, err
	}
	// While commits fail, each asks for a resync, and what the watcher has seen must not wait for these.
	looks, own := recheck.New[*Frontend](loop), recheck.New[*Frontend](loop)
	ops.resync = own.Resync
	w := &watcher{ops, params.DB, frontends, looks, params.Log}
	params.JobGroup.Add(job.OneShot("flows", ops.keepForgetting), job.OneShot("watch", w.run),
		job.OneShot("looks", looks.Run), job.OneShot("resyncs", own.Run))
	return loop, nil
}

func newOperations(target Target) *operations {
	return &operations{
		target: target, turn: make(chan struct{}, 1), have: map[kernel.Service]slots{}, stale: newStale(),
	}
}

// config returns the configuration of the reconciler of the frontends. Their outcomes are beside the table.
func config(ops *operations, frontends statedb.RWTable[*Frontend], o Options) reconciler.Config[*Frontend] {
	return reconciler.Config[*Frontend]{
		Table: frontends, RoundOperations: ops, Lister: ops, Equal: equal, Diff: diff,
		Options: []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) {
			s.ResyncInterval, s.RefreshLimiter = o.Resync, nil // a table that was deleted must not come back slowly
		})},
	}
}
