// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"

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

	traces traces[State]
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
//  2. retrieve the previous state from the annotation
//  3. compare the states to determine the required operations
//  4. apply the operations to the target
//  5. update the state annotation on success, once the [StateStore] has the same text
//
// The operations of [Configure] call it for an update. It also sets the second annotation, whose
// key ends in ".epoch": see the package. An annotation that cannot be read counts as missing. It is
// reported to the logger, as a [reconciler.Note], and in the error if the attempt fails. A state
// that cannot be encoded is a [reconciler.TerminalError], before anything is applied.
func (r *BaseStatefulReconciler[T, State, Item]) Reconcile(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) error {
	current, err := impl.ExtractCurrentState(resource)
	if err != nil {
		return fmt.Errorf("extract the current state: %w", err)
	}
	p, err := r.retrieve(ctx, resource, impl)
	if err != nil {
		return err
	}
	p.trace.trying = current
	if p.trace.full() {
		if err := r.startOver(ctx, resource, impl, &p); err != nil {
			return p.explain(err)
		}
		p.trace.trying = current
	}
	text, changed, err := p.encode(impl.GetStateAnnotationKey())
	if err != nil {
		return p.explain(err)
	}
	if err := r.moveTo(ctx, resource, impl, &p, changed); err != nil {
		return p.explain(err)
	}
	if changed {
		if text, err = update(resource, impl, current, text); err != nil {
			return p.explain(err)
		}
	}
	if err := r.store(ctx, resource, impl, p.trace, text); err != nil {
		return p.explain(err)
	}
	if changed {
		r.traces.annotate(resource, impl.GetStateAnnotationKey(), text)
	}
	if stamped := r.traces.stamp(resource); changed || stamped {
		running.Changed(ctx)
	}
	p.trace.end(text)
	if impl, ok := impl.(Requeuer[T]); ok {
		if after := impl.RequeueAfter(resource); after > 0 {
			return reconciler.Requeue(after)
		}
	}
	return nil
}

// Remove removes everything that the target may have of a deleted resource. It does not change the
// resource. The operations of [Configure] call it for a deletion.
func (r *BaseStatefulReconciler[T, State, Item]) Remove(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) error {
	var nothing State
	p, err := r.retrieve(ctx, resource, impl)
	if err != nil {
		return err
	}
	p.trace.trying = nothing
	if err := r.moveTo(ctx, resource, impl, &p, !reflect.DeepEqual(p.state, &p.trace.trying)); err != nil {
		return p.explain(err)
	}
	if err := r.store(ctx, resource, impl, p.trace, ""); err != nil {
		return p.explain(err)
	}
	r.traces.remove(object.KeyOf(resource))
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
