// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"fmt"
)

// StateStore is a [StatefulReconciler] that also keeps its states outside of the table, in a file
// or a database, since the annotations are lost with the table: then what was applied before a
// restart is still removed when it is not wanted any more, and not added again when it is.
//
// What was tried and did not succeed is not stored: see [StateObserver] for that. Both methods
// are called from several goroutines at once with [reconciler.Settings].Concurrency, but never for one
// resource.
type StateStore[T StatefulResource] interface {
	// LoadState returns the text that StoreState was given last for the resource, empty if
	// there is none. It is called at the first attempts at a resource, until one succeeds, and
	// again for a resource that is inserted after its deletion; the resource may have been
	// deleted. If the annotation of the row says something else, the target is compared with both.
	// An error fails the attempt before anything is applied.
	LoadState(ctx context.Context, resource T) (text string, err error)
	// StoreState keeps what was applied to the resource: the text of the state annotation, or the
	// empty text if the resource was deleted and the target has nothing of it. It is called after
	// a success that makes a difference to what is stored. The resource must not be changed. An
	// error fails the attempt, which is repeated.
	StoreState(ctx context.Context, resource T, text string) error
}

// load notes what a store says of an object that is not remembered. The error says that it cannot be
// read, which counts as nothing.
func (t *trace[State]) load(key, stored string) error {
	t.text, t.known = stored, true
	if stored == "" {
		return nil
	}
	state, err := decode[State](key, stored)
	t.state = *state
	if err != nil {
		return fmt.Errorf("stored %w", err)
	}
	return nil
}

// store hands what was applied to the reconciler's store, if it has one and that differs.
func (r *BaseStatefulReconciler[T, State, Item]) store(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], t *trace[State], text string) error {
	store, ok := impl.(StateStore[T])
	if !ok || t.text == text {
		return nil
	}
	if err := store.StoreState(ctx, resource, text); err != nil {
		return fmt.Errorf("store the state: %w", err)
	}
	return nil
}
