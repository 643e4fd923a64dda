// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package edgehook connects steps of operations (reconciler/edge) with the test that injects faults into them, by the
// context.
package edgehook

import "context"

// Hook decides what happens at a step of an operation. f carries the step out.
type Hook interface {
	Step(ctx context.Context, step string, f func() error) error
}

type key struct{}

// With returns a context whose steps go through the hook.
func With(ctx context.Context, h Hook) context.Context { return context.WithValue(ctx, key{}, h) }

// From returns the hook of a context, nil if it has none.
func From(ctx context.Context) Hook {
	h, _ := ctx.Value(key{}).(Hook)
	return h
}
