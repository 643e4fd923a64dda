// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// BaseStatefulReconciler is the part that all stateful reconcilers have in common. It keeps the
// state in the annotation, and remembers the other states that the target may be in. The zero value
// is ready to use. It is for the resources of one table and for one implementation, and must not be
// copied. It is safe for concurrent use for different resources.
type BaseStatefulReconciler[T StatefulResource, State, Item any] struct {
	// Logger reports annotations that cannot be read. nil turns this off. It must not be changed
	// after the first use.
	Logger *slog.Logger

	mu      sync.Mutex
	objects map[object.Key]*memory[State]
	// epoch distinguishes the annotations of this reconciler from those of other processes and
	// reconcilers. epochKey is the key of its annotation. Both are set once, with the first memory.
	epoch, epochKey string
}

// NewBaseStatefulReconciler returns a reconciler with a logger, which may be nil.
func NewBaseStatefulReconciler[T StatefulResource, State, Item any](logger *slog.Logger) *BaseStatefulReconciler[T, State, Item] {
	return &BaseStatefulReconciler[T, State, Item]{Logger: logger}
}

// HasStateChanged reports whether two states have different annotations. States that cannot be
// encoded are different unless they are deeply equal.
func (r *BaseStatefulReconciler[T, State, Item]) HasStateChanged(previous, current State) bool {
	if reflect.DeepEqual(previous, current) {
		return false
	}
	was, err := json.Marshal(&previous)
	if err != nil {
		return true
	}
	is, err := json.Marshal(&current)
	return err != nil || string(was) != string(is)
}

// UpdateAnnotation sets an annotation of a resource, which must be a clone, to a state as JSON. It
// changes nothing if the annotation has that value already. It returns an error if the state cannot
// be encoded.
func (r *BaseStatefulReconciler[T, State, Item]) UpdateAnnotation(resource T, annotationKey string, state State) error {
	text, err := json.Marshal(&state)
	if err != nil {
		return fmt.Errorf("annotation %q: %w", annotationKey, err)
	}
	if old, ok := resource.GetAnnotations()[annotationKey]; !ok || old != string(text) {
		resource.SetAnnotation(annotationKey, string(text))
	}
	return nil
}

// Reconcile reconciles a resource, which must be a clone:
//
//  1. extract the current desired state from the resource
//  2. retrieve the previous states: those that are remembered, or else that of the annotation
//  3. compare the states to determine the required operations
//  4. apply the operations to the target
//  5. update the state annotation on success, once the [StateStore] has the same text
//
// The operations of [Configure] call it for an update. It also sets the second annotation, whose
// key ends in ".epoch": see [StatefulReconciler]. An annotation that cannot be read counts as missing. It is
// reported to the logger, as a [reconciler.Note], and in the error if the attempt fails. A state
// that cannot be encoded is a [reconciler.TerminalError], before anything is applied.
func (r *BaseStatefulReconciler[T, State, Item]) Reconcile(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) error {
	current, err := impl.ExtractCurrentState(resource)
	if err != nil {
		return fmt.Errorf("extract the current state: %w", err)
	}
	m, err := r.remember(ctx, resource, impl)
	if err != nil {
		return err
	}
	m.wanted = current
	if err := r.reconcile(ctx, resource, impl, m); err != nil {
		return m.explain(err)
	}
	if impl, ok := impl.(Requeuer[T]); ok {
		if after := impl.RequeueAfter(resource); after > 0 {
			return reconciler.Requeue(after)
		}
	}
	return nil
}

// reconcile brings the target to the wanted state, and then the store and the annotations.
func (r *BaseStatefulReconciler[T, State, Item]) reconcile(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State]) error {
	if m.full() {
		if err := r.startOver(ctx, resource, impl, m); err != nil {
			return err
		}
	}
	key, text := impl.GetStateAnnotationKey(), m.text
	changed := m.changed(resource.GetAnnotations()[key])
	if changed {
		encoded, err := json.Marshal(&m.wanted)
		if err != nil {
			return reconciler.TerminalError(fmt.Errorf("annotation %q: %w", key, err))
		}
		text = string(encoded)
	}
	if err := apply(ctx, resource, impl, m); err != nil {
		return err
	}
	if changed {
		var err error
		if text, err = update(resource, impl, m.wanted, text); err != nil {
			return err
		}
	}
	if err := store(ctx, resource, impl, m, text); err != nil {
		return err
	}
	if changed || !r.stamped(resource) {
		object.SetAnnotations(resource, key, text, r.epochKey, r.epoch)
		running.Changed(ctx)
	}
	m.settle(m.wanted, text)
	m.trouble = nil
	return nil
}

// startOver removes everything that the target may have of a resource, so that the tried states can
// be forgotten. This includes wanted items: the target may have another version of them, and adding
// an item need not replace that.
func (r *BaseStatefulReconciler[T, State, Item]) startOver(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State]) error {
	var nothing State
	reconciler.Note(ctx, fmt.Sprintf("starting over: %d states were tried in vain", len(m.states)-1))
	current := m.wanted
	m.wanted = nothing
	if err := apply(ctx, resource, impl, m); err != nil {
		return fmt.Errorf("remove everything, to start over: %w", err)
	}
	m.settle(nothing, "")
	m.unclear, m.wanted = true, current
	return nil
}

// Remove removes everything that the target may have of a deleted resource. It does not change the
// resource. The operations of [Configure] call it for a deletion.
func (r *BaseStatefulReconciler[T, State, Item]) Remove(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) error {
	m, err := r.remember(ctx, resource, impl)
	if err != nil {
		return err
	}
	m.wanted = *new(State)
	if err := apply(ctx, resource, impl, m); err != nil {
		return m.explain(err)
	}
	if err := store(ctx, resource, impl, m, ""); err != nil {
		return m.explain(err)
	}
	r.forget(object.KeyOf(resource))
	return nil
}

// apply brings the target from each of the states that it may be in to the wanted one, with a call for
// each. What one call adds, no other removes: all lead to the same state.
func apply[T StatefulResource, State, Item any](ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State]) error {
	calls, err := plan(ctx, resource, impl, m)
	for i := 0; i < len(calls) && err == nil; i++ {
		// Before the call, so that it holds after a panic too.
		if !m.has() {
			m.states = append(m.states, m.wanted)
		}
		err = impl.ApplyOperations(ctx, resource, calls[i])
	}
	return err
}

// plan returns the operations for each state that the target may be in. The observed state says what is missing: of
// the others only the removals count then.
func plan[T StatefulResource, State, Item any](ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State]) (calls []StateChangeOperations[State, Item], err error) {
	compare := func(from *State, missing bool) error {
		if reflect.DeepEqual(from, &m.wanted) {
			return nil
		}
		ops, err := impl.CompareStates(*from, m.wanted)
		if err != nil {
			return fmt.Errorf("compare the states: %w", err)
		}
		if !missing && !ops.ContextChanged {
			ops.ItemsToAdd, ops.ItemsToUpdate = nil, nil
		}
		if !ops.IsEmpty() {
			calls = append(calls, ops)
		}
		return nil
	}
	var observed *State
	if observer, ok := impl.(StateObserver[T, State]); ok {
		state, err := observer.ObserveState(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("observe the state: %w", err)
		}
		if err := compare(&state, true); err != nil {
			return nil, err
		}
		observed = &state
	}
	for i := range m.states {
		from := &m.states[i]
		if observed != nil && reflect.DeepEqual(from, observed) {
			continue
		}
		if err := compare(from, observed == nil); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// store passes the applied text to the StateStore of impl, if there is one and it may have another text.
func store[T StatefulResource, State, Item any](ctx context.Context, resource T, impl StatefulReconciler[T, State, Item], m *memory[State], text string) error {
	store, ok := impl.(StateStore[T])
	if !ok || m.text == text && !m.unclear {
		return nil
	}
	// Before the call, so that it holds after a panic too.
	m.unclear = true
	if err := store.StoreState(ctx, resource, text); err != nil {
		return fmt.Errorf("store the state: %w", err)
	}
	m.unclear = false
	return nil
}

// update returns the annotation for the state that was applied: what an [AnnotationUpdater] makes of it, or else
// text. It leaves the annotation of the resource as it is, since the state may not be stored.
func update[T StatefulResource, State, Item any](resource T, impl StatefulReconciler[T, State, Item], current State, text string) (string, error) {
	updater, ok := impl.(AnnotationUpdater[T, State])
	if !ok {
		return text, nil
	}
	key := impl.GetStateAnnotationKey()
	old, had := resource.GetAnnotations()[key]
	// Deferred, so that it holds after a panic too.
	defer func() {
		if had {
			resource.SetAnnotation(key, old)
		} else {
			resource.RemoveAnnotation(key)
		}
	}()
	if err := updater.UpdateStateAnnotation(resource, current); err != nil {
		return "", fmt.Errorf("update the state annotation: %w", err)
	}
	text, ok = resource.GetAnnotations()[key]
	if !ok {
		return "", fmt.Errorf("update the state annotation: %T.UpdateStateAnnotation has not set %q", impl, key)
	}
	return text, nil
}
