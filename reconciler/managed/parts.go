// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"

	"github.com/cilium/statedb"
)

// Initializer prepares an object before the other steps of a pass, for example by setting its external
// name. What it sets on the object, which is a clone, is written with the rest.
type Initializer[T any] interface {
	// Initialize is called at the start of each pass. An error is the outcome of the pass.
	Initialize(ctx context.Context, obj T) error
}

// InitializerFn is a function that implements [Initializer].
type InitializerFn[T any] func(ctx context.Context, obj T) error

// Initialize calls the function.
func (fn InitializerFn[T]) Initialize(ctx context.Context, obj T) error { return fn(ctx, obj) }

// NewNameAsExternalName returns an initializer that sets the external name of an object to its name,
// unless it has one. External names are then deterministic: see [WithDeterministicExternalName].
func NewNameAsExternalName[T Resource]() Initializer[T] {
	return InitializerFn[T](func(_ context.Context, obj T) error {
		if GetExternalName(obj) == "" {
			SetExternalName(obj, obj.GetName())
		}
		return nil
	})
}

// ReferenceResolver fills in on an object what it takes from other rows. It is called in each pass
// before connecting, except for objects that are being deleted.
type ReferenceResolver[T any] interface {
	// ResolveReferences sets on the object, which is a clone, what it takes from rows of txn. An error
	// is the outcome of the pass. With the error of [reconciler.Need] the object waits for the row, and
	// wakes as soon as the row is there.
	ResolveReferences(ctx context.Context, txn statedb.ReadTxn, obj T) error
}

// ReferenceResolverFn is a function that implements [ReferenceResolver].
type ReferenceResolverFn[T any] func(ctx context.Context, txn statedb.ReadTxn, obj T) error

// ResolveReferences calls the function.
func (fn ReferenceResolverFn[T]) ResolveReferences(ctx context.Context, txn statedb.ReadTxn, obj T) error {
	return fn(ctx, txn, obj)
}

// ConnectionDetails hold by name what is needed to use a resource, such as an address or a password.
type ConnectionDetails map[string][]byte

// ConnectionPublisher passes connection details on to those who need them. It is called in each pass
// with what the client observes, and with what it stores by [NoteConnection]; a later call may have other
// names. It should do nothing if nothing is new. It must not write to the table of the objects.
type ConnectionPublisher[T any] interface {
	// PublishConnection publishes details, which are not nil. An error is the outcome of the pass.
	PublishConnection(ctx context.Context, obj T, details ConnectionDetails) error
	// UnpublishConnection withdraws what was published for the object, before the row is removed. The
	// details are what Observe returned for the missing resource, mostly nil; nil if it is left in
	// place. If it fails, the object stays, and its error is the outcome of the pass.
	UnpublishConnection(ctx context.Context, obj T, details ConnectionDetails) error
}

// ConnectionPublisherFns is a [ConnectionPublisher] made of functions. A nil function does nothing.
type ConnectionPublisherFns[T any] struct {
	PublishConnectionFn   func(ctx context.Context, obj T, details ConnectionDetails) error
	UnpublishConnectionFn func(ctx context.Context, obj T, details ConnectionDetails) error
}

// PublishConnection calls PublishConnectionFn.
func (fns ConnectionPublisherFns[T]) PublishConnection(ctx context.Context, obj T, details ConnectionDetails) error {
	if fns.PublishConnectionFn == nil {
		return nil
	}
	return fns.PublishConnectionFn(ctx, obj, details)
}

// UnpublishConnection calls UnpublishConnectionFn.
func (fns ConnectionPublisherFns[T]) UnpublishConnection(ctx context.Context, obj T, details ConnectionDetails) error {
	if fns.UnpublishConnectionFn == nil {
		return nil
	}
	return fns.UnpublishConnectionFn(ctx, obj, details)
}

// Finalizer records on an object that its external resource must be deleted before the row may be
// removed. The reconciler writes what it changes on the object, which is a clone, into the table: after
// AddFinalizer before anything is created or updated; after RemoveFinalizer the row is removed if it
// has no other finalizers. An implementation that also stores it elsewhere does so in these calls. The
// finalizer on the row is named [FinalizerName], or by the method Name() string if the implementation
// has one. Finalizers with other names belong to others, who must clean up first.
type Finalizer[T any] interface {
	// AddFinalizer is called in each pass in which the resource is not being deleted, and mostly has
	// nothing to do. If it fails, nothing is created, and its error is the outcome of the pass.
	AddFinalizer(ctx context.Context, obj T) error
	// RemoveFinalizer is called when the external resource is gone or is left in place. If it fails,
	// the object stays, and its error is the outcome of the pass.
	RemoveFinalizer(ctx context.Context, obj T) error
}

// FinalizerFns is a [Finalizer] made of functions. A nil function does nothing.
type FinalizerFns[T any] struct {
	AddFinalizerFn    func(ctx context.Context, obj T) error
	RemoveFinalizerFn func(ctx context.Context, obj T) error
}

// AddFinalizer calls AddFinalizerFn.
func (fns FinalizerFns[T]) AddFinalizer(ctx context.Context, obj T) error {
	return call(ctx, obj, fns.AddFinalizerFn)
}

// RemoveFinalizer calls RemoveFinalizerFn.
func (fns FinalizerFns[T]) RemoveFinalizer(ctx context.Context, obj T) error {
	return call(ctx, obj, fns.RemoveFinalizerFn)
}
