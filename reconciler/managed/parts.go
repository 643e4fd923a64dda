// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
)

// Initializer prepares an object before the other steps of a pass, for example by setting its external
// name. It is called at the start of each pass, with a clone: what it sets is written with the rest. An
// error is the outcome of the pass.
type Initializer[T any] func(ctx context.Context, obj T) error

// NewNameAsExternalName returns an initializer that sets the external name of an object to its name,
// unless it has one. External names are then deterministic: see [WithDeterministicExternalName].
func NewNameAsExternalName[T Resource]() Initializer[T] {
	return func(_ context.Context, obj T) error {
		if GetExternalName(obj) == "" {
			SetExternalName(obj, obj.GetName())
		}
		return nil
	}
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
