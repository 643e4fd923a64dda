// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// operations runs the operations of a reconciler with engines.
type operations[Obj any] struct {
	hook any
	// reconcile runs one operation with an engine of its own.
	reconcile func(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// compare tells the loop whether an update has changed its row.
	compare func(ctx context.Context, obj Obj)
}

var _ reconciler.ObjectOperations[int] = (*operations[int])(nil)

// engine is the part of an engine that operations uses.
type engine[Obj any] interface {
	Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// release drops the references to the last reconciliation.
	release()
}

func newOperations[Obj any, E engine[Obj]](hook any, make func() E) *operations[Obj] {
	engines := sync.Pool{New: func() any { return make() }}
	o := &operations[Obj]{hook: hook}
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

// Update implements [reconciler.ObjectOperations]. An engine reconciles the row.
func (o *operations[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	// Deferred, so that changes from before a panic are written, also if the panic is no news.
	defer o.compare(ctx, obj)
	return o.reconcile(ctx, txn, revision, obj, false)
}

// Delete implements [reconciler.ObjectOperations]. An engine reconciles the deleted row; a [Stepper] goes
// to CRFinalizer.
func (o *operations[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	return o.reconcile(ctx, txn, revision, obj, true)
}
