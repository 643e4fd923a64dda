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

// Operations are those of a reconciler, which have an engine do them.
//
// What a hook changes on the row is written with the outcome. The reconcilers of [New] and
// [Register] write it whatever the outcome; those of a configuration of one's own only if the
// status says something new, which a second requeue or an unchanged failure does not.
type Operations[Obj any] struct {
	hook   any
	pruner reconciler.Pruner[Obj]
	// reconcile does one with an engine that nobody else uses meanwhile.
	reconcile func(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// compare tells the loop whether an update has changed its row; nil if that is not known.
	compare func(ctx context.Context, obj Obj)
}

var _ reconciler.Operations[int] = (*Operations[int])(nil)

// engine is what operations need of one.
type engine[Obj any] interface {
	Reconcile(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error
	// release makes it forget what it was called for.
	release()
}

func newOperations[Obj any, E engine[Obj]](hook any, make func() E) *Operations[Obj] {
	engines := sync.Pool{New: func() any { return make() }}
	o := &Operations[Obj]{hook: hook}
	o.pruner, _ = hook.(reconciler.Pruner[Obj])
	o.reconcile = func(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) error {
		e := engines.Get().(E)
		err := e.Reconcile(ctx, txn, revision, obj, deleted)
		e.release()
		// One whose hook panicked does not come back.
		engines.Put(e)
		return err
	}
	return o
}

// Update implements [reconciler.Operations]: it has an engine reconcile the row.
func (o *Operations[Obj]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	err := o.reconcile(ctx, txn, revision, obj, false)
	if o.compare != nil {
		o.compare(ctx, obj)
	}
	return err
}

// Delete implements [reconciler.Operations]: it has an engine reconcile the deleted row,
// which leads a [Stepper] to CRFinalizer.
func (o *Operations[Obj]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj) error {
	return o.reconcile(ctx, txn, revision, obj, true)
}

// Prune implements [reconciler.Pruner] with the hook's method. It is an error if the hook has
// none: then pruning is to be off, as [New] and [Register] make it.
func (o *Operations[Obj]) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[Obj, statedb.Revision]) error {
	if o.pruner == nil {
		return fmt.Errorf("the hook %T has no Prune method; use WithoutPruning", o.hook)
	}
	return o.pruner.Prune(ctx, txn, objects)
}
