// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// runtime is what a contender needs from the hive to register itself.
type runtime struct {
	cell.In

	Log      *slog.Logger
	DB       *statedb.DB
	JobGroup job.Group
	ModuleID cell.FullModuleID
}

// params are the parameters of a Statekeel reconciler.
func (rt runtime) params() reconciler.Params {
	return reconciler.Params{Log: rt.Log, DB: rt.DB, JobGroup: rt.JobGroup, ModuleID: rt.ModuleID}
}

// host is a running hive, with its DB and the parts that a contender registered.
type host struct {
	hive *hive.Hive
	log  *slog.Logger
	db   *statedb.DB
}

// startHost lets register add a contender to a hive, and starts it.
func startHost(register func(runtime) error) (*host, error) {
	h := &host{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	h.hive = hive.New(
		cell.SimpleHealthCell,
		statedb.Cell,
		job.Cell,
		cell.Module("bench", "Benchmark",
			cell.Provide(job.Registry.NewGroup),
			cell.Invoke(func(rt runtime) error {
				h.db = rt.DB
				return register(rt)
			}),
		),
	)
	if err := h.hive.Start(h.log, context.Background()); err != nil {
		return nil, err
	}
	return h, nil
}

// Stop stops the hive and waits for the contender to end.
func (h *host) Stop(ctx context.Context) error {
	if err := h.hive.Stop(h.log, ctx); err != nil {
		return errors.Join(errors.New("the hive did not stop"), err)
	}
	return nil
}
