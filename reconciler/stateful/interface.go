// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"errors"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// Interface observes and reconciles one object, which the implementation holds.
type Interface interface {
	// Observe reads the state of the target. It is called before Reconcile. If it fails, Reconcile
	// is not called.
	Observe(ctx context.Context) error
	// Reconcile brings the target to the desired state.
	Reconcile(ctx context.Context) error
}

// Dummy is an [Interface] that does nothing.
type Dummy struct{}

var _ Interface = Dummy{}

// Observe returns nil.
func (Dummy) Observe(context.Context) error { return nil }

// Reconcile returns nil.
func (Dummy) Reconcile(context.Context) error { return nil }

// Bound has the operations of a table whose rows have an [Interface] each. An update and a deletion
// call Observe and then Reconcile. Both may return every outcome of [reconciler.ObjectOperations]. The
// functions are called from several goroutines if [reconciler.Settings].Concurrency is above one.
type Bound[T any] struct {
	// ToUpdate returns the Interface for an update of the resource, which is a clone. Required.
	ToUpdate func(resource T) Interface
	// ToDelete returns the Interface for the deletion of the resource, which must not be changed.
	// nil means that a deletion does nothing.
	ToDelete func(resource T) Interface
}

// Update observes and reconciles a resource.
func (b Bound[T]) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	if b.ToUpdate == nil {
		return reconciler.TerminalError(errors.New("stateful: Bound.ToUpdate is nil"))
	}
	return run(ctx, b.ToUpdate(resource))
}

// Delete observes and reconciles a deleted resource.
func (b Bound[T]) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, resource T) error {
	if b.ToDelete == nil {
		return nil
	}
	return run(ctx, b.ToDelete(resource))
}

func run(ctx context.Context, of Interface) error {
	if err := of.Observe(ctx); err != nil {
		return err
	}
	return of.Reconcile(ctx)
}
