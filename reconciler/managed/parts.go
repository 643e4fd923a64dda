// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"

	"github.com/cilium/statedb"
)

// Initializer prepares an object before anything else is done for it, as by noting its external
// name. It is called at the start of each pass; what it sets on the object, a clone, is written
// with the rest.
type Initializer[T any] interface {
	// Initialize prepares the object. An error is the outcome of the pass.
	Initialize(ctx context.Context, obj T) error
}

// InitializerFn makes an [Initializer] of a function.
type InitializerFn[T any] func(ctx context.Context, obj T) error

// Initialize calls the function.
func (fn InitializerFn[T]) Initialize(ctx context.Context, obj T) error { return fn(ctx, obj) }

// NewNameAsExternalName returns an initializer that notes the name of an object as its external
// name, unless it has one. With it names are deterministic: see [WithDeterministicExternalName].
func NewNameAsExternalName[T Resource]() Initializer[T] {
	return InitializerFn[T](func(_ context.Context, obj T) error {
		if GetExternalName(obj) == "" {
			SetExternalName(obj, obj.GetName())
		}
		return nil
	})
}

// ReferenceResolver fills in on an object what it takes from other rows. It is called in each
// pass before the outside system is connected to, but not for objects that are to be deleted.
type ReferenceResolver[T any] interface {
	// ResolveReferences sets on the object, a clone, what it takes from rows that are looked
	// up in txn. An error is the outcome of the pass: that of [reconciler.Need] makes it wait
	// for the row, and wake at once.
	ResolveReferences(ctx context.Context, txn statedb.ReadTxn, obj T) error
}

// ReferenceResolverFn makes a [ReferenceResolver] of a function.
type ReferenceResolverFn[T any] func(ctx context.Context, txn statedb.ReadTxn, obj T) error

// ResolveReferences calls the function.
func (fn ReferenceResolverFn[T]) ResolveReferences(ctx context.Context, txn statedb.ReadTxn, obj T) error {
	return fn(ctx, txn, obj)
}

// ConnectionDetails are what others need to use a resource, by name: an address, a password.
type ConnectionDetails map[string][]byte

// ConnectionPublisher hands connection details to those who need them. It is called with what
// the client observes, in each pass, and with what it notes by [NoteConnection]; it should do
// nothing when nothing is new. It must not write to the table of the objects.
type ConnectionPublisher[T any] interface {
	// PublishConnection publishes details. It is not called without any. An error is the
	// outcome of the pass.
	PublishConnection(ctx context.Context, obj T, details ConnectionDetails) error
	// UnpublishConnection takes back what was published of the object, before it goes. The
	// details are those observed last, nil if the resource is gone. An error keeps the object,
	// and is the outcome of the pass.
	UnpublishConnection(ctx context.Context, obj T, details ConnectionDetails) error
}

// ConnectionPublisherFns makes a [ConnectionPublisher] of functions; a nil one does nothing.
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

// Finalizer notes on an object that its external resource has to be deleted before it goes. What
// it changes of the object, a clone, the reconciler writes into the table: after AddFinalizer
// before anything is created or updated; after RemoveFinalizer the row goes, if it has no more
// finalizers. One that also notes it elsewhere does so in these calls. What it puts on a row is
// [FinalizerName], or what its method Name() string returns, if it has one: finalizers of other
// names are others', who have to clean up first.
type Finalizer[T any] interface {
	// AddFinalizer is called in each pass in which the resource is not to be deleted, so it
	// mostly has nothing to do. An error is the outcome of the pass; nothing is created then.
	AddFinalizer(ctx context.Context, obj T) error
	// RemoveFinalizer is called when the external resource is gone, or is to be left. An
	// error keeps the object, and is the outcome of the pass.
	RemoveFinalizer(ctx context.Context, obj T) error
}

// FinalizerFns makes a [Finalizer] of functions; a nil one does nothing.
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
