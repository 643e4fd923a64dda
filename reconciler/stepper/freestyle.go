// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"

	"github.com/cilium/statedb"
)

// FreeStyleHook is called by a [FreeStyle] engine for each reconciliation.
//
// A hook that implements [reconciler.Pruner] also prunes.
type FreeStyleHook[Obj any] interface {
	// ReconcileWithCR is called with an engine that has the row, or its last version if it was
	// deleted: see [Call.Deleted]. The hook adds what it did, and what failed, to the results of
	// the engine. As for [StepperEngineHook], each reconciliation has its own engine, which must not be
	// kept.
	ReconcileWithCR(engine *FreeStyle[Obj])
}

// FreeStyleHookFunc is a function that implements [FreeStyleHook].
type FreeStyleHookFunc[Obj any] func(engine *FreeStyle[Obj])

// ReconcileWithCR implements [FreeStyleHook].
func (f FreeStyleHookFunc[Obj]) ReconcileWithCR(engine *FreeStyle[Obj]) { f(engine) }

// FreeStyle is an engine without states. It has the row and the results, and calls the hook once.
// It is for one goroutine at a time. The operations of [Configure] use a copy for each reconciliation.
type FreeStyle[Obj any] struct {
	Call[Obj]

	hook FreeStyleHook[Obj]
}

// NewFreeStyle returns an engine that calls the hook, which must not be nil.
func NewFreeStyle[Obj any](hook FreeStyleHook[Obj]) *FreeStyle[Obj] {
	return &FreeStyle[Obj]{Call: Call[Obj]{Results: &Results{}}, hook: hook}
}

// Run calls the hook. It adds to the results, and results that were there before count too: see
// [Results.ResetAllResults].
func (e *FreeStyle[Obj]) Run() { e.hook.ReconcileWithCR(e) }

// Reconcile runs for one row, as an operation of a reconciler does. It empties the results, notes
// what the hook added to them, and returns [Results.Outcome]. A note of the hook stays if it added nothing. deleted
// reports whether the row was deleted from the table.
func (e *FreeStyle[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	e.begin(ctx, txn, revision, obj, deleted)
	return e.reconcile(e.Run, func() string { return e.text() })
}

// another implements [Engine].
func (e *FreeStyle[Obj]) another() Engine[Obj] { return NewFreeStyle(e.hook) }

// check implements [Engine].
func (e *FreeStyle[Obj]) check() (hook any, err error) { return e.hook, nil }
