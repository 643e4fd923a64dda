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

// Runtime is what a contender needs from the hive to register itself.
type Runtime struct {
	cell.In

	Log      *slog.Logger
	DB       *statedb.DB
	JobGroup job.Group
	ModuleID cell.FullModuleID
}

// Params are the parameters of a Statekeel reconciler.
func (rt Runtime) Params() reconciler.Params {
	return reconciler.Params{Log: rt.Log, DB: rt.DB, JobGroup: rt.JobGroup, ModuleID: rt.ModuleID}
}

// Host is a running hive with the parts that a contender registered.
type Host struct {
	DB *statedb.DB

	hive *hive.Hive
	log  *slog.Logger
}

// StartHost lets register add a contender to a hive, and starts it.
func StartHost(register func(Runtime) error) (*Host, error) {
	h := &Host{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	h.hive = hive.New(
		cell.SimpleHealthCell,
		statedb.Cell,
		job.Cell,
		cell.Module("bench", "Benchmark",
			cell.Provide(job.Registry.NewGroup),
			cell.Invoke(func(rt Runtime) error {
				h.DB = rt.DB
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
func (h *Host) Stop(ctx context.Context) error {
	if err := h.hive.Stop(h.log, ctx); err != nil {
		return errors.Join(errors.New("the hive did not stop"), err)
	}
	return nil
}
