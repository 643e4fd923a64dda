// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
)

// Params is what a reconciler needs from the hive: see [Register] and [RegisterConfig].
type Params struct {
	cell.In

	Log            *slog.Logger
	DB             *statedb.DB
	JobGroup       job.Group
	ModuleID       cell.FullModuleID
	DefaultMetrics Metrics `optional:"true"`
}

// RegisterConfig makes a reconciler and adds its jobs to the hive: "reconcile", which runs the loop,
// and "refresh", which has the health of refreshing, if that is on; each with "-" and the reconciler's
// name appended if it has one. If refreshing is off at first and turned on later, it reports no health.
//
// params replaces what cfg has in DB, Log and ModuleID. Its DefaultMetrics are used unless
// cfg.Options has [WithMetrics]. The reconciler reports to the health of the jobs; cfg.Health is only
// used by triggers that the program runs itself.
//
// It may be called before and after the hive has started. The errors are those of [New].
func RegisterConfig[Obj any](params Params, cfg Config[Obj]) (*Loop[Obj], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	l, err := newLoop(cfg, params.DefaultMetrics)
	if err != nil {
		return nil, err
	}
	refreshHealth := make(chan cell.Health, 1)
	params.JobGroup.Add(job.OneShot(l.setup.scoped("reconcile"), func(ctx context.Context, health cell.Health) error {
		err := l.reconcile(ctx, func() (own, refreshing cell.Health) {
			// A program that sees a row Done also finds the health of both jobs.
			select {
			case refreshing = <-refreshHealth:
				return health, refreshing
			case <-ctx.Done():
				return health, noHealth()
			}
		})
		if errors.Is(err, execute.ErrGoexit) {
			// A hive drops the health of a job that has ended, and this health has to stay visible.
			<-ctx.Done()
		}
		return err
	}))
	if l.setup.opts.settings.RefreshInterval == 0 {
		// There is no job for refreshing while it is off, but it may be turned on later.
		refreshHealth <- noHealth()
	} else {
		// The loop refreshes. The job only has its health.
		params.JobGroup.Add(job.OneShot(l.setup.scoped("refresh"), func(ctx context.Context, health cell.Health) error {
			refreshHealth <- health
			select {
			case <-l.life.ended:
			case <-ctx.Done():
			}
			return nil
		}))
	}
	return l, nil
}
