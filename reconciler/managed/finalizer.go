// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"slices"
)

// NewFinalizer returns a [Finalizer] that keeps name among the finalizers of an object. Both methods
// are idempotent and never fail.
func NewFinalizer[T Resource](name string) Finalizer[T] { return namedFinalizer[T]{name} }

type namedFinalizer[T Resource] struct{ name string }

// Name returns the name.
func (f namedFinalizer[T]) Name() string { return f.name }

// AddFinalizer adds the name if it is missing.
func (f namedFinalizer[T]) AddFinalizer(_ context.Context, obj T) error {
	addFinalizer(obj, f.name)
	return nil
}

// RemoveFinalizer removes the name if it is there.
func (f namedFinalizer[T]) RemoveFinalizer(_ context.Context, obj T) error {
	removeFinalizer(obj, f.name)
	return nil
}

// hasFinalizer reports whether an object has a finalizer of this name.
func hasFinalizer(obj Resource, name string) bool {
	return slices.Contains(obj.meta().Finalizers, name)
}

func addFinalizer(obj Resource, name string) {
	if m := obj.meta(); !hasFinalizer(obj, name) {
		m.Finalizers = append(slices.Clip(m.Finalizers), name)
	}
}

func removeFinalizer(obj Resource, name string) {
	is := func(finalizer string) bool { return finalizer == name }
	if m := obj.meta(); hasFinalizer(obj, name) {
		m.Finalizers = slices.DeleteFunc(slices.Clone(m.Finalizers), is)
	}
}
