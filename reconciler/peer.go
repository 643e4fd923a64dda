// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

// What is in this file is for programs written against github.com/cilium/statedb/reconciler: it has the names and the
// shapes that they know, and other names of this module do the same. It never changes: see docs/STABILITY.md.

import (
	"context"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

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

// Operations are what [Register] takes: with a Prune method, which [Config] does not ask for.
type Operations[Obj any] interface {
	ObjectOperations[Obj]
	Pruner[Obj]
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

// WithPruning sets [Settings].PruneInterval. Zero is the same as [WithoutPruning].
func WithPruning(interval time.Duration) Option {
	return WithSettings(func(s *Settings) { s.PruneInterval = interval })
}

// WithoutPruning turns periodic pruning off: prunes run only after calls of [Reconciler].Prune.
func WithoutPruning() Option { return WithPruning(0) }

// WithRefreshing sets [Settings].RefreshInterval and RefreshLimiter.
func WithRefreshing(interval time.Duration, limiter *rate.Limiter) Option {
	return WithSettings(func(s *Settings) { s.RefreshInterval, s.RefreshLimiter = interval, limiter })
}

// WithRetry sets [Settings].MinBackoff and MaxBackoff.
func WithRetry(minBackoff, maxBackoff time.Duration) Option {
	return WithSettings(func(s *Settings) { s.MinBackoff, s.MaxBackoff = minBackoff, maxBackoff })
}

// WithRoundLimits sets [Settings].RoundSize and RoundLimiter: the largest number of objects in a
// round, and the rate of rounds.
func WithRoundLimits(numObjects int, limiter *rate.Limiter) Option {
	return WithSettings(func(s *Settings) { s.RoundSize, s.RoundLimiter = numObjects, limiter })
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
