// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// FreeStyleHook is called by a [FreeStyle] engine for each reconciliation.
//
// A hook that implements [reconciler.Pruner] also prunes.
type FreeStyleHook[Obj any] interface {
	// ReconcileWithCR is called with an engine that has the row, or its last version if it was
	// deleted: see [Call.Deleted]. The hook adds what it did, and what failed, to the results of
	// the engine. As for [StepperEngineHook], each worker has its own engine, which must not be
	// kept.
	ReconcileWithCR(engine *FreeStyle[Obj])
}

// FreeStyleHookFunc is a function that implements [FreeStyleHook].
type FreeStyleHookFunc[Obj any] func(engine *FreeStyle[Obj])

// ReconcileWithCR implements [FreeStyleHook].
func (f FreeStyleHookFunc[Obj]) ReconcileWithCR(engine *FreeStyle[Obj]) { f(engine) }

// FreeStyle is an engine without states. It has the row and the results, and calls the hook once.
// It is for one goroutine at a time. The operations of [Configure] make as many copies as they
// need.
type FreeStyle[Obj any] struct {
	Call[Obj]

	hook FreeStyleHook[Obj]
	own  Results
}

// NewFreeStyle returns an engine that calls the hook, which must not be nil.
func NewFreeStyle[Obj any](hook FreeStyleHook[Obj]) *FreeStyle[Obj] {
	e := &FreeStyle[Obj]{hook: hook}
	e.Results = &e.own
	return e
}

// Run calls the hook. It adds to the results, and results that were there before count too: see
// [Results.ResetAllResults].
func (e *FreeStyle[Obj]) Run() { e.hook.ReconcileWithCR(e) }

// Reconcile runs for one row, as an operation of a reconciler does. It empties the results, notes
// what the hook added to them, and returns [Results.Outcome]. deleted reports whether the row was
// deleted from the table.
func (e *FreeStyle[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	e.begin(ctx, txn, revision, obj, deleted)
	// Deferred, so that the results are noted after a panic too.
	defer e.note(ctx)
	defer e.markDeletion()
	e.Run()
	return e.Outcome()
}

// note notes the results. If there are none, a note that the hook made itself stays.
func (e *FreeStyle[Obj]) note(ctx context.Context) {
	if text := e.text(); text != "" {
		reconciler.Note(ctx, text)
	}
}

// release implements engine.
func (e *FreeStyle[Obj]) release() { e.forget(&e.own) }

// operations implements [Engine].
func (e *FreeStyle[Obj]) operations() *operations[Obj] {
	return newOperations[Obj](e.hook, func() *FreeStyle[Obj] { return NewFreeStyle(e.hook) })
}
