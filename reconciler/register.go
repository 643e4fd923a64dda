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
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

// Reconciler is the handle of a running reconciler. [Loop] implements it and has more methods. Its
// methods are safe from any goroutine.
type Reconciler[Obj any] interface {
	// Prune requests a prune now, or a resync if the target is listed, whatever the interval. It does not wait for it.
	// Several calls may lead to one prune. If the table is not initialised yet, the prune runs when it is.
	Prune()

	// WaitUntilReconciled blocks until every change of the table up to untilRevision has been
	// attempted at least once, even if another reconciler writes the row again meanwhile.
	//
	// It returns a revision up to which all changes have been attempted, and retryLowWatermark, the
	// lowest revision since which an object is not reconciled, or zero if all are. A change at a
	// revision r, if the object has not changed since, is in the target if revision is at least r,
	// and retryLowWatermark is zero or above r.
	//
	// If everything is reconciled, revision is the revision up to which the reconciler has read the
	// table. Otherwise it is untilRevision, or the revision of the latest change that requested work
	// if that is higher.
	//
	// If ctx ends first, the error is that of ctx, and revision is the one up to which everything was
	// attempted.
	WaitUntilReconciled(ctx context.Context, untilRevision statedb.Revision) (revision, retryLowWatermark statedb.Revision, err error)
}

// Params is what a reconciler needs from the hive: see [Register] and [RegisterConfig].
type Params struct {
	cell.In

	Log            *slog.Logger
	DB             *statedb.DB
	JobGroup       job.Group
	ModuleID       cell.FullModuleID
	DefaultMetrics Metrics `optional:"true"`
}

// Register makes a reconciler and adds its jobs, "reconcile" and "refresh", to the hive. It is for
// programs written against github.com/cilium/statedb/reconciler; others use [RegisterConfig]. The
// arguments are fields of [Config]; batchOps may be nil.
//
// Unlike RegisterConfig it refreshes by default: every 30 minutes, at most 100 objects per second.
// [WithRefreshing] changes that.
func Register[Obj any](
	params Params,
	table statedb.RWTable[Obj],
	clone func(Obj) Obj,
	setStatus func(Obj, Status) Obj,
	getStatus func(Obj) Status,
	ops Operations[Obj],
	batchOps BatchOperations[Obj],
	options ...Option,
) (Reconciler[Obj], error) {
	// The default of the peer.
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

// These are the names of package status, as programs know them from
// github.com/cilium/statedb/reconciler.
type (
	// Status is the outcome of one reconciler for one object.
	Status = status.Status
	// StatusKind is the kind of a [Status].
	StatusKind = status.Kind
	// StatusSet holds one named [Status] per reconciler of an object.
	StatusSet = status.Set
)

// The kinds of a [Status].
const (
	StatusKindUnset      = status.KindUnset
	StatusKindPending    = status.KindPending
	StatusKindRefreshing = status.KindRefreshing
	StatusKindDone       = status.KindDone
	StatusKindError      = status.KindError
	StatusKindBlocked    = status.KindBlocked
)

// StatusPending returns the status that asks for an object to be reconciled. Every writer that
// changes an object sets it. Each call returns a new ID.
func StatusPending() Status { return status.Pending() }

// StatusRefreshing returns the status that asks for an unchanged object to be applied again, for a
// writer that detected drift. Update finds it on the object.
func StatusRefreshing() Status { return status.Refreshing() }

// StatusDone returns the status of an object that is in the target.
func StatusDone() Status { return status.Done() }

// StatusError returns the status of an object whose operation failed with err. The text of a nil err
// is "<nil>".
func StatusError(err error) Status { return status.Error(err) }

// NewStatusSet returns a set without required reconcilers. [status.NewSet] returns one with a list of
// them.
func NewStatusSet() StatusSet { return status.NewSet() }

// NewStatusIndex returns an index of a table's objects by the kind of their status. It makes queries
// for unreconciled objects fast; in return, every write of a status updates the index.
func NewStatusIndex[Obj any](getObjectStatus func(Obj) Status) statedb.Index[Obj, StatusKind] {
	return status.NewIndex(getObjectStatus)
}

// WaitForReconciliation blocks until the index has no object that is Pending, Refreshing, Error or
// Blocked. If ctx ends first, the error wraps that of ctx; a table without the index is an error at
// once. Safe from any goroutine.
func WaitForReconciliation[Obj any](ctx context.Context, db *statedb.DB, table statedb.Table[Obj], statusIndex statedb.Index[Obj, StatusKind]) error {
	return status.WaitForReconciliation(ctx, db, table, statusIndex)
}

// These are the names of package metrics, as programs know them from
// github.com/cilium/statedb/reconciler.
type (
	// Metrics receives the figures of reconcilers.
	Metrics = metrics.Metrics
	// ExpVarMetrics is the implementation of [Metrics] on package expvar.
	ExpVarMetrics = metrics.ExpVar
)

// The names of operations that [Metrics] gets.
const (
	OpUpdate = metrics.OpUpdate
	OpDelete = metrics.OpDelete
)

// NewExpVarMetrics returns metrics that are published with package expvar. A process has one set of
// variables: a second call returns metrics on the same variables. If another variable is published
// under one of their names, the metrics work but stay unpublished; [metrics.PublishExpVar] returns
// that as an error.
func NewExpVarMetrics() *ExpVarMetrics {
	m, err := metrics.PublishExpVar()
	if err != nil {
		return metrics.NewExpVar()
	}
	return m
}

// NewUnpublishedExpVarMetrics returns metrics that are not published: only [ExpVarMetrics.Map] shows
// them.
func NewUnpublishedExpVarMetrics() *ExpVarMetrics { return metrics.NewExpVar() }
