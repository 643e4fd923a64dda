// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// FreeStyleHook is called by a [FreeStyle] engine at each reconciliation.
//
// A hook that has the method of [reconciler.Pruner] prunes, too.
type FreeStyleHook[Obj any] interface {
	// ReconcileWithCR is called with the row in the engine, or with what it was last if it
	// was deleted; see [Call.Deleted]. What was done, and what failed, is to be added to the
	// results of the engine. As for [StepperEngineHook], there is an engine for each worker,
	// which must not be kept.
	ReconcileWithCR(engine *FreeStyle[Obj])
}

// FreeStyleHookFunc is a function as a hook.
type FreeStyleHookFunc[Obj any] func(engine *FreeStyle[Obj])

// ReconcileWithCR implements [FreeStyleHook].
func (f FreeStyleHookFunc[Obj]) ReconcileWithCR(engine *FreeStyle[Obj]) { f(engine) }

// FreeStyle is an engine without states, for a process of one's own: it has the row and the
// results, and calls the hook once. It is for one goroutine at a time. The operations of
// [Configure] make as many like it as are needed.
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

// Run calls the hook. What happened is in the results, to which those count that were there
// before: see [Results.ResetAllResults].
func (e *FreeStyle[Obj]) Run() { e.hook.ReconcileWithCR(e) }

// Reconcile runs for one row, as an operation of a reconciler does: it begins with no
// results, notes what was added to them, and returns [Results.Outcome]. deleted says whether the row was deleted from the
// table.
func (e *FreeStyle[Obj]) Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
	e.begin(ctx, txn, revision, obj, deleted)
	// A hook that panics leaves what it did behind, too.
	defer e.note(ctx)
	defer e.markDeletion()
	e.Run()
	return e.Outcome()
}

// note notes the results. If there are none, a note of the hook's own stays.
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
