// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

// Handle takes the figures of one reconciler. Its methods correspond to those of [Metrics], but
// keys and look-ups that depend only on the module and the name are made once. A reconciler calls
// its handle from one goroutine; several handles of one reconciler may be in use at once.
type Handle interface {
	// UpdateDuration is [Metrics.ReconciliationDuration] for [OpUpdate].
	UpdateDuration(duration time.Duration)

	// DeleteDuration is [Metrics.ReconciliationDuration] for [OpDelete].
	DeleteDuration(duration time.Duration)

	// ReconciliationErrors is [Metrics.ReconciliationErrors].
	ReconciliationErrors(new, current int)

	// PruneError is [Metrics.PruneError].
	PruneError(err error)

	// PruneDuration is [Metrics.PruneDuration].
	PruneDuration(duration time.Duration)
}

// Binder is a [Metrics] with its own handles. Implementing it is optional: see [Bind].
type Binder interface {
	// Bind returns the handle for one reconciler. It is called when the reconciler is made and
	// started, and for each worker, from any goroutine. Figures from the handle and from the methods
	// of [Metrics] must add up. If it returns nil, the methods of [Metrics] are called instead.
	Bind(moduleID cell.FullModuleID, name string) Handle
}

// Bind returns the handle for one reconciler: m's own if m is a [Binder], otherwise one that calls
// the methods of m. If m is nil, the handle drops all figures. Bind never returns nil.
func Bind(m Metrics, moduleID cell.FullModuleID, name string) Handle {
	if m == nil {
		return discardHandle{}
	}
	if binder, ok := m.(Binder); ok {
		if handle := binder.Bind(moduleID, name); handle != nil {
			return handle
		}
	}
	return &callingHandle{metrics: m, moduleID: moduleID, name: name}
}

// callingHandle calls the methods of a Metrics that is not a Binder.
type callingHandle struct {
	metrics  Metrics
	moduleID cell.FullModuleID
	name     string
}

func (h *callingHandle) UpdateDuration(duration time.Duration) {
	h.metrics.ReconciliationDuration(h.moduleID, h.name, OpUpdate, duration)
}

func (h *callingHandle) DeleteDuration(duration time.Duration) {
	h.metrics.ReconciliationDuration(h.moduleID, h.name, OpDelete, duration)
}

func (h *callingHandle) ReconciliationErrors(new, current int) {
	h.metrics.ReconciliationErrors(h.moduleID, h.name, new, current)
}

func (h *callingHandle) PruneError(err error) {
	h.metrics.PruneError(h.moduleID, h.name, err)
}

func (h *callingHandle) PruneDuration(duration time.Duration) {
	h.metrics.PruneDuration(h.moduleID, h.name, duration)
}
