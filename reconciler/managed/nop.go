// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "context"

// NopClient is an outside system in which every resource exists and is up to date, and is gone when its
// object is being deleted.
type NopClient[T any] struct{}

// Observe returns that the resource exists and is up to date. For an object that is being deleted it
// returns that the resource is gone.
func (*NopClient[T]) Observe(_ context.Context, obj T) (ExternalObservation, error) {
	if r, ok := any(obj).(Resource); ok && WasDeleted(r) {
		return ExternalObservation{}, nil
	}
	return ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, nil
}

// Create returns nil.
func (*NopClient[T]) Create(context.Context, T) error { return nil }

// Update returns nil.
func (*NopClient[T]) Update(context.Context, T) error { return nil }

// Delete returns nil.
func (*NopClient[T]) Delete(context.Context, T) error { return nil }

// NopConnecter connects to nothing.
type NopConnecter[T any] struct{}

// Connect returns a [NopClient] and no error.
func (*NopConnecter[T]) Connect(context.Context, T) (ExternalClient[T], error) {
	return &NopClient[T]{}, nil
}

// NopDisconnecter adds a Disconnect that does nothing to a connecter.
type NopDisconnecter[T any] struct{ connecter ExternalConnecter[T] }

// NewNopDisconnecter adds a Disconnect that does nothing to a connecter, which must not be nil.
func NewNopDisconnecter[T any](c ExternalConnecter[T]) ExternalConnectDisconnecter[T] {
	return &NopDisconnecter[T]{c}
}

// Connect calls Connect of the connecter.
func (c *NopDisconnecter[T]) Connect(ctx context.Context, obj T) (ExternalClient[T], error) {
	return c.connecter.Connect(ctx, obj)
}

// Disconnect returns nil.
func (*NopDisconnecter[T]) Disconnect(context.Context) error { return nil }
