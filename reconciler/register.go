// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/execute"
)

// Reconciler is the handle on a running reconciler. [Loop] implements it and has more
// methods. Safe from any goroutine.
type Reconciler[Obj any] interface {
	// Prune asks for a prune now, whatever the interval. It does not wait for it,
	// and several calls may lead to one prune. If the table is not initialised
	// yet, the prune comes when it is.
	Prune()

	// WaitUntilReconciled blocks until every change of the table up to the given
	// revision has been attempted at least once, also if another reconciler writes
	// the row again meanwhile. It returns a revision up to which all was attempted,
	// and the lowest revision from which on an object is not reconciled, zero if there
	// is none: what was wanted at a revision, and was not changed since, is in the
	// target when the first is not below it and the second is zero or above it.
	// The first is the revision up to which the reconciler has looked if all is
	// reconciled, else the higher of the given one and that of the latest change that
	// asked for something. If ctx ends before, the error is that of ctx, and the first
	// is the revision up to which all was attempted.
	WaitUntilReconciled(ctx context.Context, untilRevision statedb.Revision) (revision, retryLowWatermark statedb.Revision, err error)
}

// Params are what a reconciler takes from the hive.
type Params struct {
	cell.In

	Log            *slog.Logger
	DB             *statedb.DB
	JobGroup       job.Group
	ModuleID       cell.FullModuleID
	DefaultMetrics Metrics `optional:"true"`
}

// Register makes a reconciler and adds its jobs, "reconcile" and "refresh", to the
// hive. It is [RegisterConfig] for programs written against
// github.com/cilium/statedb/reconciler, and refreshes every 30 minutes, at most 100 objects a second,
// unless [WithRefreshing] says otherwise; see [Config] for what the arguments mean. batchOps may be
// nil.
func Register[Obj comparable](
	params Params,
	table statedb.RWTable[Obj],
	clone func(Obj) Obj,
	setStatus func(Obj, Status) Obj,
	getStatus func(Obj) Status,
	ops Operations[Obj],
	batchOps BatchOperations[Obj],
	options ...Option,
) (Reconciler[Obj], error) {
	// As the peer does.
	refreshing := WithRefreshing(30*time.Minute, rate.NewLimiter(100, 1))
	loop, err := RegisterConfig(params, Config[Obj]{
		Table:           table,
		Clone:           clone,
		SetStatus:       setStatus,
		GetStatus:       getStatus,
		Operations:      ops,
		BatchOperations: batchOps,
		Options:         slices.Concat([]Option{refreshing}, options),
	})
	if err != nil {
		return nil, err
	}
	return loop, nil
}

// RegisterConfig makes a reconciler and adds its jobs to the hive: "reconcile", which
// runs the loop, and "refresh" if refreshing is on, each with the reconciler's name
// appended if it has one. DB, Log and ModuleID of the configuration are taken from
// params, Health is that of the jobs. It can be called before the hive has started and
// after. The error names every setting that is wrong.
func RegisterConfig[Obj comparable](params Params, cfg Config[Obj]) (*Loop[Obj], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	cfg.defaultMetrics = params.DefaultMetrics
	l, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if l.opts.RefreshInterval > 0 {
		l.refresherStarted = make(chan struct{})
		params.JobGroup.Add(job.OneShot(l.scoped("reconcile"), keepingHealth(l.reconcile)))
		params.JobGroup.Add(job.OneShot(l.scoped("refresh"), keepingHealth(func(ctx context.Context, health cell.Health) error {
			close(l.refresherStarted)
			return l.refresh(ctx, health)
		})))
		return l, nil
	}
	// There is no job for what is off, but it may be turned on later.
	params.JobGroup.Add(job.OneShot(l.scoped("reconcile"), keepingHealth(func(ctx context.Context, health cell.Health) error {
		return l.reconcileAndRefresh(ctx, health, noHealth{})
	})))
	return l, nil
}

// keepingHealth makes a job that ends early stay until it is stopped: a hive drops the health of
// a job that has ended, and it is to be seen that this one did.
func keepingHealth(run job.OneShotFunc) job.OneShotFunc {
	return func(ctx context.Context, health cell.Health) error {
		err := run(ctx, health)
		if errors.Is(err, execute.ErrGoexit) {
			<-ctx.Done()
		}
		return err
	}
}
