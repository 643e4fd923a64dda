// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package metrics is how reconcilers hand out their figures: the [Metrics] interface for
// those who take them, [Handle] for the loop that gives them, [Figures] for those who read
// them when they want to ([Attacher]), and [ExpVar], which shows them as expvar variables.
package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

// Metrics takes the figures of reconcilers, each known by its module and its name, which
// is "" where a module has only one. Reconcilers call it from their own goroutines, all
// at once: the methods must be safe for concurrent use, must not block, and must not
// call back into the reconciler.
type Metrics interface {
	// ReconciliationDuration is called after each operation, [OpUpdate] or [OpDelete] or
	// a batch of either, with how long it took, whether it failed or not.
	ReconciliationDuration(moduleID cell.FullModuleID, name, operation string, duration time.Duration)

	// ReconciliationErrors is called after each round with the number of operations that
	// failed in it, and the number of objects that are failing after it.
	ReconciliationErrors(moduleID cell.FullModuleID, name string, new, current int)

	// PruneError is called after each prune with its error, nil if it succeeded.
	PruneError(moduleID cell.FullModuleID, name string, err error)

	// PruneDuration is called after each prune with how long it took, whether it failed
	// or not.
	PruneDuration(moduleID cell.FullModuleID, name string, duration time.Duration)
}

// Operations, as [Metrics.ReconciliationDuration] names them.
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
