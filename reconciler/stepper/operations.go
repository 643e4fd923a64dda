// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// operations runs the operations of a reconciler with engines.
type operations[Obj any] struct {
	hook   any
	pruner reconciler.Pruner[Obj]
	// reconcile runs one operation with an engine of its own.
	reconcile func(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// compare tells the loop whether an update has changed its row.
	compare func(ctx context.Context, obj Obj)
}

var _ reconciler.Operations[int] = (*operations[int])(nil)

// engine is the part of an engine that operations uses.
type engine[Obj any] interface {
	Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// release drops the references to the last reconciliation.
	release()
}

func newOperations[Obj any, E engine[Obj]](hook any, make func() E) *operations[Obj] {
	engines := sync.Pool{New: func() any { return make() }}
	o := &operations[Obj]{hook: hook}
	o.pruner, _ = hook.(reconciler.Pruner[Obj])
	o.reconcile = func(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
		e := engines.Get().(E)
		err := e.Reconcile(ctx, txn, revision, obj, deleted)
		e.release()
		// Not reached if the hook panics: the engine is dropped then.
		engines.Put(e)
		return err
	}
	return o
}

// Update implements [reconciler.Operations]. An engine reconciles the row.
func (o *operations[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	// Deferred, so that changes from before a panic are written, also if the panic is no news.
	defer o.compare(ctx, obj)
	return o.reconcile(ctx, txn, revision, obj, false)
}

// Delete implements [reconciler.Operations]. An engine reconciles the deleted row; a [Stepper] goes
// to CRFinalizer.
func (o *operations[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	return o.reconcile(ctx, txn, revision, obj, true)
}

// Prune implements [reconciler.Pruner] with the hook's method. It returns an error if the hook has
// none: [Configure] turns pruning off in this case, but the program may have turned it on again.
func (o *operations[Obj]) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[Obj, statedb.Revision]) error {
	if o.pruner == nil {
		return fmt.Errorf("the hook %T has no Prune method; use WithoutPruning", o.hook)
	}
	return o.pruner.Prune(ctx, txn, objects)
}
