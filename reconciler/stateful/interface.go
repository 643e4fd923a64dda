// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"iter"

	"github.com/cilium/statedb"
)

// Interface has the functions to observe and to reconcile one resource object, which it knows.
type Interface interface {
	// Observe looks at what is there. It is called before Reconcile, which is not called
	// if it fails.
	Observe(ctx context.Context) error
	// Reconcile makes what is there what is wanted.
	Reconcile(ctx context.Context) error
}

// Dummy is an [Interface] that does nothing.
type Dummy struct{}

var _ Interface = Dummy{}

// Observe returns nil.
func (Dummy) Observe(context.Context) error { return nil }

// Reconcile returns nil.
func (Dummy) Reconcile(context.Context) error { return nil }

// Bound are the operations of a table whose objects have an [Interface] each: an update and a
// deletion call Observe, and then Reconcile. The errors of both may be everything that
// [reconciler.Operations] may return. A prune does nothing: set [reconciler.WithoutPruning]. The
// functions are called from several goroutines at once with [reconciler.Settings].Concurrency.
type Bound[T any] struct {
	// ToUpdate returns what an update of the resource, a clone, observes and reconciles.
	// Required.
	ToUpdate func(resource T) Interface
	// ToDelete returns what the deletion of the resource does; the resource must not be
	// changed. nil means that nothing is to be done.
	ToDelete func(resource T) Interface
}

// Update observes and reconciles a resource.
func (b Bound[T]) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	return run(ctx, b.ToUpdate(resource))
}

// Delete observes and reconciles a resource that was deleted.
func (b Bound[T]) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	if b.ToDelete == nil {
		return nil
	}
	return run(ctx, b.ToDelete(resource))
}

// Prune does nothing.
func (b Bound[T]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[T, statedb.Revision]) error {
	return nil
}

func run(ctx context.Context, of Interface) error {
	if err := of.Observe(ctx); err != nil {
		return err
	}
	return of.Reconcile(ctx)
}
