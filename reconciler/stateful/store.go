// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"fmt"
)

// StateStore is an optional interface of a [StatefulReconciler] that also keeps its states outside
// of the table, in a file or a database. Annotations are lost with the table. With a store, items
// that were applied before a restart are still removed when they are no longer wanted, and are not
// added again when they are.
//
// States that were tried without success are not stored: see [StateObserver]. If
// [reconciler.Settings].Concurrency is above one, both methods are called from several goroutines,
// but never concurrently for one resource.
type StateStore[T StatefulResource] interface {
	// LoadState returns the text that StoreState was last given for the resource, or the empty text
	// if there is none. It is called at each attempt until a call succeeds. It may be called again
	// for a resource that is inserted after its deletion. The resource may have been deleted. If
	// the annotation of the row differs from the text, the reconciler compares with both. An error
	// fails the attempt before anything is applied.
	LoadState(ctx context.Context, resource T) (text string, err error)
	// StoreState keeps the state that was applied to the resource: the text of the state
	// annotation, or the empty text if the resource was deleted and the target has nothing of it.
	// It is called after a success if the text differs from the stored one, and before the annotation
	// is set. The resource must not be changed. An error fails the attempt, which is repeated. The text
	// may have been stored nevertheless: the next success stores its text, whatever that is.
	StoreState(ctx context.Context, resource T, text string) error
}

// load records the stored text of an object that is not remembered. It returns an error if the text
// cannot be decoded; it then counts as the zero State.
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

// store passes the applied text to the StateStore of impl, if there is one and it may have another text.
func (r *BaseStatefulReconciler[T, State, Item]) store(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], t *trace[State], text string) error {
	store, ok := impl.(StateStore[T])
	if !ok || t.text == text && !t.unclear {
		return nil
	}
	// Set before the call, so that it holds after a panic too.
	t.unclear = true
	if err := store.StoreState(ctx, resource, text); err != nil {
		return fmt.Errorf("store the state: %w", err)
	}
	t.unclear = false
	return nil
}
