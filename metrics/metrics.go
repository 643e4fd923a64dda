// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package metrics defines how reconcilers report figures: [Metrics] receives them, [Handle] is what
// the loop calls, [Figures] are read on demand through an [Attacher], and [ExpVar] publishes both
// as expvar variables. Package metrics/prometheus does the same for Prometheus.
package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

// Metrics receives the figures of reconcilers. A reconciler is identified by its module and its
// name, which is "" if the module has only one. Reconcilers call it from their own goroutines: the
// methods must be safe for concurrent use, must not block, and must not call the reconciler.
type Metrics interface {
	// ReconciliationDuration is called after each call of an operation, for one object or a batch,
	// with [OpUpdate] or [OpDelete] and the duration, whether it failed or not. A call with deletions
	// and updates counts as one of each, with the duration divided by their numbers.
	ReconciliationDuration(moduleID cell.FullModuleID, name, operation string, duration time.Duration)

	// ReconciliationErrors is called at the start with zeros, and after each round in which operations
	// ended or the number of failing objects changed: with the number of operations that failed in the
	// round and the number of objects that are failing after it.
	ReconciliationErrors(moduleID cell.FullModuleID, name string, new, current int)

	// PruneError is called after each prune with its error, nil if it succeeded.
	PruneError(moduleID cell.FullModuleID, name string, err error)

	// PruneDuration is called after each prune with its duration, whether it failed or not.
	PruneDuration(moduleID cell.FullModuleID, name string, duration time.Duration)
}

// Names of operations in [Metrics.ReconciliationDuration].
const (
	OpUpdate = "update"
	OpDelete = "delete"
)

// Discard is a [Metrics] that drops all figures.
var Discard Metrics = discard{}

type discard struct{}

func (discard) ReconciliationDuration(cell.FullModuleID, string, string, time.Duration) {}
func (discard) ReconciliationErrors(cell.FullModuleID, string, int, int)                {}
func (discard) PruneError(cell.FullModuleID, string, error)                             {}
func (discard) PruneDuration(cell.FullModuleID, string, time.Duration)                  {}
func (discard) Bind(cell.FullModuleID, string) Handle                                   { return discardHandle{} }

type discardHandle struct{}

func (discardHandle) UpdateDuration(time.Duration)  {}
func (discardHandle) DeleteDuration(time.Duration)  {}
func (discardHandle) ReconciliationErrors(int, int) {}
func (discardHandle) PruneError(error)              {}
func (discardHandle) PruneDuration(time.Duration)   {}
