// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

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
