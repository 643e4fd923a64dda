// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// previous is the knowledge about a resource before an attempt.
type previous[State any] struct {
	trace *trace[State]
	// text is the annotation. state is its value, or the zero State if it is missing or cannot be
	// read.
	text     string
	state    *State
	readable bool
	// missing: the store has a state, but the row has no annotation.
	missing bool
	// others are further states that the target may be in, completely or in part.
	others []State
	// trouble is the error of reading the annotation or the stored state, else nil.
	trouble error
}

// explain adds trouble, the reason for comparing with the zero State, to an error.
func (p *previous[State]) explain(err error) error {
	if p.trouble == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, p.trouble)
}

// retrieve returns the knowledge about a resource from its annotation, its trace and the store.
func (r *BaseStatefulReconciler[T, State, Item]) retrieve(ctx context.Context, resource T, impl StatefulReconciler[T, State, Item]) (previous[State], error) {
	key := impl.GetStateAnnotationKey()
	t := r.traces.of(object.KeyOf(resource), key)
	p := previous[State]{trace: t}
	text, found := resource.GetAnnotations()[key]
	if found {
		stamped := r.traces.stamped(resource)
		t.foreign = t.foreign || !stamped
		// An unknown object with this process's epoch was deleted: ignore its annotation.
		found = t.known || !stamped
	}
	if store, ok := impl.(StateStore[T]); ok && !t.known {
		stored, err := store.LoadState(ctx, resource)
		if err != nil {
			return p, fmt.Errorf("load the state: %w", err)
		}
		p.trouble = t.load(key, stored)
		if !found && stored != "" && p.trouble == nil {
			text, found, p.missing = stored, true, true
		}
	}
	p.text = text
	switch {
	case !found && !t.known:
		p.state = &t.state // the zero State
	case !found:
		p.state = new(State)
	case t.known && t.text == text:
		p.state, p.readable = &t.state, true
	default:
		var trouble error
		p.state, trouble = decode[State](key, text)
		p.readable = trouble == nil
		p.trouble = errors.Join(p.trouble, trouble)
	}
	if p.readable && !t.known {
		t.text, t.state, t.known = text, *p.state, true
	}
	if p.trouble != nil {
		r.complain(ctx, resource, key, text, &p)
	}
	p.others = t.others(p.readable && t.text == text)
	return p, nil
}

// complain reports an annotation that cannot be read: in the journal at each attempt, to the logger
// once.
func (r *BaseStatefulReconciler[T, State, Item]) complain(ctx context.Context, resource T, key, text string, p *previous[State]) {
	reconciler.Note(ctx, "a first reconciliation: "+p.trouble.Error())
	if p.trace.complain(text) && r.Logger != nil {
		r.Logger.Warn("treating an annotation that cannot be read as a first reconciliation",
			"object", object.KeyOf(resource).String(), "annotation", key, "error", p.trouble)
	}
}

func decode[State any](key, text string) (*State, error) {
	state := new(State)
	if err := json.Unmarshal([]byte(text), state); err != nil {
		return new(State), fmt.Errorf("annotation %q cannot be read: %w", key, err)
	}
	return state, nil
}

// encode returns the state that is tried as an annotation, and whether that differs from the
// current annotation.
func (p *previous[State]) encode(key string) (text string, changed bool, err error) {
	if p.readable && reflect.DeepEqual(p.state, &p.trace.trying) {
		return p.text, p.missing, nil
	}
	encoded, err := json.Marshal(&p.trace.trying)
	if err != nil {
		return "", false, reconciler.TerminalError(fmt.Errorf("annotation %q: %w", key, err))
	}
	text = string(encoded)
	return text, !p.readable || p.missing || text != p.text, nil
}
