// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

// The names of package status under which a program that moves over from
// github.com/cilium/statedb/reconciler knows them.
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

// StatusPending returns the status that asks for an object to be reconciled. Every
// writer that changes an object sets it; each call returns a fresh ID.
func StatusPending() Status { return status.Pending() }

// StatusRefreshing returns the status that asks for an unchanged object to be
// applied again, for a writer that knows of drift. Update sees it on the object.
func StatusRefreshing() Status { return status.Refreshing() }

// StatusDone returns the status of an object that the target has.
func StatusDone() Status { return status.Done() }

// StatusError returns the status of an object whose operation failed with err; a
// nil err has the text "<nil>".
func StatusError(err error) Status { return status.Error(err) }

// NewStatusSet returns a set that requires no reconciler by name. See
// [status.NewSet] for one that does.
func NewStatusSet() StatusSet { return status.NewSet() }

// NewStatusIndex returns an index of a table's objects by the kind of their status.
// It is for tables that are asked often which objects are not reconciled; every
// status write maintains it.
func NewStatusIndex[Obj any](getObjectStatus func(Obj) Status) statedb.Index[Obj, StatusKind] {
	return status.NewIndex(getObjectStatus)
}

// WaitForReconciliation blocks until no object of the table is Pending, Refreshing,
// Error or Blocked by the given index, or until ctx ends, whose error it then
// returns. Safe from any goroutine.
func WaitForReconciliation[Obj any](ctx context.Context, db *statedb.DB, table statedb.Table[Obj], statusIndex statedb.Index[Obj, StatusKind]) error {
	return status.WaitForReconciliation(ctx, db, table, statusIndex)
}

// The names of package metrics under which a program that moves over from
// github.com/cilium/statedb/reconciler knows them.
type (
	// Metrics receives the figures of reconcilers.
	Metrics = metrics.Metrics
	// ExpVarMetrics is the implementation of [Metrics] on package expvar.
	ExpVarMetrics = metrics.ExpVar
)

// The operations that [Metrics] are told of.
const (
	OpUpdate = metrics.OpUpdate
	OpDelete = metrics.OpDelete
)

// NewExpVarMetrics returns metrics that are published with package expvar. There is
// one set of variables in a process: a second call returns metrics on the same
// variables. If something else is published under one of their names, the metrics
// work but stay unpublished; [metrics.PublishExpVar] returns that as an error.
func NewExpVarMetrics() *ExpVarMetrics {
	m, err := metrics.PublishExpVar()
	if err != nil {
		return metrics.NewExpVar()
	}
	return m
}

// NewUnpublishedExpVarMetrics returns metrics that only [ExpVarMetrics.Map] shows.
func NewUnpublishedExpVarMetrics() *ExpVarMetrics { return metrics.NewExpVar() }
